// Keeps the key of the page's actions. The storage is this origin's alone, port included, which a cookie is not.
const key = document.querySelector('meta[name="gpuq-page-key"]').content;
try {
  localStorage.setItem("gpuq-page-key", key);
} catch {
  // Without storage the page may only read, and says so at the first action.
}
location.replace("/");
