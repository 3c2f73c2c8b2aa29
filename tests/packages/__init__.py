"""What gpuq is installed from: built, installed where nothing else is, and used to run a job."""
