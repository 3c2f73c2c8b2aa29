%struct.Body = type { <4 x float>, float, i32, [8 x i8] }
%struct.Held = type { ptr, i32 }
%struct.param_t = type { ptr, ptr, i32, i32, i32, i32, i32, %struct.flags_t, i8 }
%struct.flags_t = type { i8 }
%struct.__va_list_tag = type { i32, i32, ptr, ptr }
@k_partial_sums.t = internal unnamed_addr global [64 x float] undef, align 16
@k_tile_transpose.t = internal unnamed_addr global [16 x [17 x float]] undef, align 16
@.str = private unnamed_addr constant [2
@_global_offset_x = external local_unnamed_addr global i64, align 8
@_global_offset_y = external local_unnamed_addr global i64, align 8
@_global_offset_z = external local_unnamed_addr global i64, align 8
@_group_id_x = external local_unnamed_addr global i64, align 8
@_group_id_y = external local_unnamed_addr global i64, align 8
@_group_id_z = external local_unnamed_addr global i64, align 8
@_local_id_x = external local_unnamed_addr global i64, align 8
@_local_id_y = external local_unnamed_addr global i64, align 8
@_local_id_z = external local_unnamed_addr global i64, align 8
@_local_size_x = external local_unnamed_addr global i64, align 8
@_local_size_y = external local_unnamed_addr global i64, align 8
@_local_size_z = external local_unnamed_addr global i64, align 8
@_num_groups_x = external local_unnamed_addr global i64, align 8
@_num_groups_y = external local_unnamed_addr global i64, align 8
@_num_groups_z = external local_unnamed_addr global i64, align 8
@__const.__pocl_print_floats_double.NANs = private unnamed_addr constant [2
@__const.__pocl_print_floats_double.INFs = private unnamed_addr constant [2
@.str.4 = private unnamed_addr constant [7
@.str.5 = private unnamed_addr constant [32
@_printf_buffer = external local_unnamed_addr global ptr, align 8
@_printf_buffer_capacity = external local_unnamed_addr global i32, align 4
@_printf_buffer_position = external local_unnamed_addr global ptr, align 8
@__const.__pocl_printf_float_libc.str = private unnamed_addr constant [25
@.str.484 = private unnamed_addr constant [2
@.str.1.483 = private unnamed_addr constant [1
@.str.2.485 = private unnamed_addr constant [2
@.str.3.486 = private unnamed_addr constant [2
@.str.4.487 = private unnamed_addr constant [2
@.str.5.488 = private unnamed_addr constant [2
@.str.6 = private unnamed_addr constant [2
!6 = !{i32 1, i32 1}
!7 = !{!"none", !"none"}
!8 = !{!"float*", !"float*"}
!9 = !{!"const", !""}
!10 = !{!"a", !"b"}
!19 = !{i32 1, i32 1, i32 0, i32 0}
!20 = !{!"none", !"none", !"none", !"none"}
!21 = !{!"float*", !"float*", !"int", !"float"}
!22 = !{!"const", !"", !"", !""}
!23 = !{!"a", !"b", !"n", !"s"}
!24 = !{i32 1, i32 1, i32 0}
!25 = !{!"none", !"none", !"none"}
!26 = !{!"float*", !"float*", !"float"}
!27 = !{!"const", !"", !""}
!28 = !{!"a", !"b", !"s"}
!29 = !{i32 1, i32 1, i32 1}
!30 = !{!"float*", !"float*", !"int*"}
!31 = !{!"a", !"b", !"c"}
!32 = !{!"float4*", !"float4*"}
!33 = !{!"float __attribute__((ext_vector_type(4)))*", !"float __attribute__((ext_vector_type(4)))*"}
!35 = !{!"const", !"", !"const"}
!36 = !{!"a", !"b", !"p"}
!39 = !{!"float*", !"float*", !"uint"}
!40 = !{!"a", !"b", !"n"}
!41 = !{!"uchar*", !"uchar*"}
!42 = !{!"float*", !"float*", !"int", !"int"}
!43 = !{!"a", !"b", !"w", !"h"}
!44 = !{!"float*", !"float*", !"int"}
!45 = !{!"a", !"b", !"d"}
!47 = !{!"a", !"b", !"w"}
!48 = !{i32 1, i32 1, i32 1, i32 0}
!49 = !{!"float*", !"float*", !"float*", !"int"}
!50 = !{!"const", !"", !"const", !""}
!51 = !{!"a", !"b", !"c", !"n"}
!61 = !{!"int*", !"int*"}
!62 = !{!"p", !"c"}
!65 = !{!"float4*", !"float4*", !"int"}
!66 = !{!"float __attribute__((ext_vector_type(4)))*", !"float __attribute__((ext_vector_type(4)))*", !"int"}
!71 = !{i32 1}
!72 = !{!"none"}
!73 = !{!"int*"}
!74 = !{!""}
!75 = !{!"b"}
!76 = !{i32 1, i32 0}
!77 = !{!"float*", !"int"}
!78 = !{!"", !""}
!79 = !{!"b", !"n"}
!82 = !{!"float*"}
!84 = !{!"float*", !"int*"}
!85 = !{!"", !"const"}
!86 = !{!"b", !"p"}
!87 = !{i32 1, i32 1, i32 3}
!88 = !{!"int*", !"int*", !"int*"}
!89 = !{!"p", !"c", !"t"}
!90 = !{!"Body*", !"Body*"}
!96 = !{!"uint*", !"int*"}
!97 = !{!"p", !"b"}
!102 = !{!"b", !"c"}

define <3 x float> @_Z10_cl_vload3mPU8CLglobalKf(i64 noundef %0, ptr noundef readonly captures(none) %1) local_unnamed_addr {
  %3 = mul i64 %0, 3
  %4 = getelementptr inbounds float, ptr %1, i64 %3
  %5 = load float, ptr %4, align 4
  %6 = insertelement <3 x float> undef, float %5, i64 0
  %7 = getelementptr inbounds float, ptr %4, i64 1
  %8 = bitcast ptr %7 to ptr
  %9 = load <2 x float>, ptr %8, align 4
  %10 = shufflevector <2 x float> %9, <2 x float> poison, <3 x i32> <i32 0, i32 1, i32 poison>
  %11 = shufflevector <3 x float> %6, <3 x float> %10, <3 x i32> <i32 0, i32 3, i32 4>
  ret <3 x float> %11
}

define <4 x float> @_Z10_cl_vload4mPU8CLglobalKf(i64 noundef %0, ptr noundef readonly captures(none) %1) local_unnamed_addr {
  %3 = shl i64 %0, 2
  %4 = getelementptr inbounds float, ptr %1, i64 %3
  %5 = bitcast ptr %4 to ptr
  %6 = load <2 x float>, ptr %5, align 4
  %7 = or i64 %3, 2
  %8 = getelementptr inbounds float, ptr %1, i64 %7
  %9 = bitcast ptr %8 to ptr
  %10 = load <2 x float>, ptr %9, align 4
  %11 = shufflevector <2 x float> %6, <2 x float> %10, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  ret <4 x float> %11
}

define <2 x float> @_Z11__pocl_eplnf(float noundef %0) local_unnamed_addr {
  %2 = fcmp ord float %0, 0.000000e+00
  %3 = bitcast float %0 to i32
  %4 = and i32 %3, 2147483647
  %5 = bitcast i32 %4 to float
  br i1 %2, label %6, label %._Z11_cl_frfrexpf.exit_crit_edge

._Z11_cl_frfrexpf.exit_crit_edge:
  %.pre5 = fmul float %0, 0x41D0000000000000
  br label %_Z11_cl_frfrexpf.exit

6:
  %7 = fcmp olt float %5, 0x3810000000000000
  %8 = fmul float %0, 0x41D0000000000000
  %9 = select i1 %7, float %8, float %0
  %10 = bitcast float %9 to i32
  %11 = and i32 %10, -2139095041
  %12 = or i32 %11, 1056964608
  %13 = fcmp une float %9, 0x7FF0000000000000
  %14 = fcmp une float %9, 0xFFF0000000000000
  %15 = and i1 %13, %14
  %16 = and i32 %10, -2147483648
  %17 = or i32 %16, 2139095040
  %18 = select i1 %15, i32 %12, i32 %17
  %19 = bitcast i32 %18 to float
  %20 = fcmp oeq float %9, 0.000000e+00
  %21 = select i1 %20, float %9, float %19
  br label %_Z11_cl_frfrexpf.exit

_Z11_cl_frfrexpf.exit:
  %.pre-phi6 = phi float [ %.pre5, %._Z11_cl_frfrexpf.exit_crit_edge ], [ %8, %6 ]
  %22 = phi float [ %0, %._Z11_cl_frfrexpf.exit_crit_edge ], [ %21, %6 ]
  %23 = fcmp olt float %22, 0x3FE5555560000000
  %24 = select i1 %23, float 2.000000e+00, float 1.000000e+00
  %25 = fmul float %22, %24
  %26 = fcmp olt float %5, 0x3810000000000000
  %27 = select i1 %26, float %.pre-phi6, float %0
  %28 = fcmp ueq float %27, 0.000000e+00
  br i1 %28, label %38, label %29

29:
  %30 = select i1 %26, i32 -156, i32 -126
  %31 = bitcast float %27 to i32
  %32 = lshr i32 %31, 23
  %33 = and i32 %32, 255
  %34 = add nsw i32 %33, %30
  %35 = fcmp une float %27, 0x7FF0000000000000
  %36 = fcmp une float %27, 0xFFF0000000000000
  %37 = and i1 %35, %36
  br i1 %37, label %_Z12_cl_expfrexpf.exit, label %38

38:
  br label %_Z12_cl_expfrexpf.exit

_Z12_cl_expfrexpf.exit:
  %39 = phi i32 [ 0, %38 ], [ %34, %29 ]
  %.neg = sext i1 %23 to i32
  %40 = add nsw i32 %39, %.neg
  %41 = fadd float %25, -1.000000e+00
  %42 = fadd float %25, 1.000000e+00
  %43 = fsub float %42, %25
  %44 = fsub float %42, %43
  %45 = fsub float %25, %44
  %46 = fsub float 1.000000e+00, %43
  %47 = fadd float %46, %45
  %48 = fdiv float 1.000000e+00, %42, !fpmath !59
  %49 = fmul float %41, %48
  %50 = bitcast float %49 to i32
  %51 = and i32 %50, -4096
  %52 = bitcast i32 %51 to float
  %53 = fsub float %49, %52
  %54 = bitcast float %42 to i32
  %55 = and i32 %54, -4096
  %56 = bitcast i32 %55 to float
  %57 = fsub float %42, %56
  %58 = fmul float %42, %49
  %59 = fmul float %56, %52
  %60 = fsub float %59, %58
  %61 = fmul float %57, %52
  %62 = fadd float %61, %60
  %63 = fmul float %53, %56
  %64 = fadd float %63, %62
  %65 = fmul float %57, %53
  %66 = fadd float %65, %64
  %67 = fmul float %49, %47
  %68 = fadd float %67, %66
  %69 = fadd float %58, %68
  %70 = fsub float %69, %58
  %71 = fsub float %68, %70
  %72 = fsub float %41, %69
  %73 = fsub float %41, %72
  %74 = fsub float %73, %69
  %75 = fsub float %74, %71
  %76 = fadd float %72, %75
  %77 = fmul float %48, %76
  %78 = fadd float %49, %77
  %79 = fsub float %78, %49
  %80 = fsub float %77, %79
  %81 = fmul float %78, %78
  %82 = bitcast float %78 to i32
  %83 = and i32 %82, -4096
  %84 = bitcast i32 %83 to float
  %85 = fsub float %78, %84
  %86 = fmul float %84, %84
  %87 = fsub float %86, %81
  %88 = fmul float %84, 2.000000e+00
  %89 = fmul float %88, %85
  %90 = fadd float %87, %89
  %91 = fmul float %85, %85
  %92 = fadd float %91, %90
  %93 = fmul float %78, %80
  %94 = fmul float %93, 2.000000e+00
  %95 = fadd float %94, %92
  %96 = fmul float %80, %80
  %97 = fadd float %96, %95
  %98 = fadd float %81, %97
  %99 = fsub float %98, %81
  %100 = fsub float %97, %99
  %101 = tail call float @llvm.fma.f32(float %98, float 0x3FCED89C20000000, float 0x3FD23E9880000000)
  %102 = tail call float @llvm.fma.f32(float %98, float %101, float 0x3FD999BDE0000000)
  %103 = sitofp i32 %40 to float
  %104 = bitcast float %103 to i32
  %105 = and i32 %104, -4096
  %106 = bitcast i32 %105 to float
  %107 = fsub float %103, %106
  %108 = fmul float %103, 0x3FE62E4300000000
  %109 = fmul float %106, 0x3FE62E0000000000
  %110 = fsub float %109, %108
  %111 = fmul float %107, 0x3FE62E0000000000
  %112 = fadd float %110, %111
  %113 = fmul float %106, 0x3F00C00000000000
  %114 = fadd float %113, %112
  %115 = fmul float %107, 0x3F00C00000000000
  %116 = fadd float %115, %114
  %117 = fmul float %103, 0x3E205C6100000000
  %118 = fsub float %116, %117
  %119 = fadd float %108, %118
  %120 = fsub float %119, %108
  %121 = fsub float %118, %120
  %122 = insertelement <2 x float> undef, float %121, i64 0
  %123 = insertelement <2 x float> %122, float %119, i64 1
  %124 = fmul float %78, 2.000000e+00
  %125 = fmul float %80, 2.000000e+00
  %126 = bitcast float %98 to i32
  %127 = and i32 %126, -4096
  %128 = bitcast i32 %127 to float
  %129 = fsub float %98, %128
  %130 = fmul float %78, %98
  %131 = fmul float %84, %128
  %132 = fsub float %131, %130
  %133 = fmul float %85, %128
  %134 = fadd float %133, %132
  %135 = fmul float %129, %84
  %136 = fadd float %135, %134
  %137 = fmul float %85, %129
  %138 = fadd float %137, %136
  %139 = fmul float %80, %98
  %140 = fmul float %78, %100
  %141 = fadd float %139, %140
  %142 = fadd float %141, %138
  %143 = fadd float %130, %142
  %144 = fsub float %143, %130
  %145 = fsub float %142, %144
  %146 = bitcast float %102 to i32
  %147 = and i32 %146, -4096
  %148 = bitcast i32 %147 to float
  %149 = fsub float %102, %148
  %150 = fmul float %98, %102
  %151 = fmul float %128, %148
  %152 = fsub float %151, %150
  %153 = fmul float %149, %128
  %154 = fadd float %152, %153
  %155 = fmul float %129, %148
  %156 = fadd float %155, %154
  %157 = fmul float %129, %149
  %158 = fadd float %157, %156
  %159 = fmul float %100, %102
  %160 = fadd float %159, %158
  %161 = fadd float %150, %160
  %162 = fsub float %161, %150
  %163 = fsub float %160, %162
  %164 = fadd float %161, 0x3FE5555540000000
  %165 = fadd float %164, 0xBFE5555540000000
  %166 = fsub float %161, %165
  %167 = fadd float %163, 0x3E2E720200000000
  %168 = fadd float %167, %166
  %169 = fadd float %164, %168
  %170 = fsub float %169, %164
  %171 = fsub float %168, %170
  %172 = bitcast float %143 to i32
  %173 = and i32 %172, -4096
  %174 = bitcast i32 %173 to float
  %175 = fsub float %143, %174
  %176 = bitcast float %169 to i32
  %177 = and i32 %176, -4096
  %178 = bitcast i32 %177 to float
  %179 = fsub float %169, %178
  %180 = fmul float %143, %169
  %181 = fmul float %174, %178
  %182 = fsub float %181, %180
  %183 = fmul float %179, %174
  %184 = fadd float %182, %183
  %185 = fmul float %175, %178
  %186 = fadd float %185, %184
  %187 = fmul float %175, %179
  %188 = fadd float %187, %186
  %189 = fmul float %143, %171
  %190 = fmul float %145, %169
  %191 = fadd float %190, %189
  %192 = fadd float %191, %188
  %193 = fadd float %180, %192
  %194 = fsub float %193, %180
  %195 = fsub float %192, %194
  %196 = fadd float %124, %193
  %197 = fsub float %196, %124
  %198 = fsub float %193, %197
  %199 = fadd float %125, %195
  %200 = fadd float %199, %198
  %201 = fadd float %196, %200
  %202 = fsub float %201, %196
  %203 = fsub float %200, %202
  %204 = insertelement <2 x float> undef, float %203, i64 0
  %205 = insertelement <2 x float> %204, float %201, i64 1
  %206 = fadd float %201, %119
  %207 = fsub float %206, %119
  %208 = fsub float %206, %207
  %209 = fsub float %119, %208
  %210 = fsub float %201, %207
  %211 = fadd float %210, %209
  %212 = fadd <2 x float> %205, %123
  %213 = extractelement <2 x float> %212, i64 0
  %214 = fsub <2 x float> %212, %123
  %215 = fsub <2 x float> %212, %214
  %216 = extractelement <2 x float> %214, i64 0
  %217 = fsub float %203, %216
  %218 = extractelement <2 x float> %215, i64 0
  %219 = fsub float %121, %218
  %220 = fadd float %217, %219
  %221 = fadd float %211, %213
  %222 = fadd float %206, %221
  %223 = fsub float %222, %206
  %224 = fsub float %221, %223
  %225 = fadd float %220, %224
  %226 = fadd float %222, %225
  %227 = fsub float %226, %222
  %228 = fsub float %225, %227
  %229 = insertelement <2 x float> undef, float %228, i64 0
  %230 = insertelement <2 x float> %229, float %226, i64 1
  ret <2 x float> %230
}

define void @_Z11_cl_vstore3Dv3_fmPU8CLglobalf(<3 x float> noundef %0, i64 noundef %1, ptr noundef writeonly captures(none) %2) local_unnamed_addr {
  %4 = mul i64 %1, 3
  %5 = getelementptr inbounds float, ptr %2, i64 %4
  %6 = extractelement <3 x float> %0, i64 0
  store float %6, ptr %5, align 4
  %7 = extractelement <3 x float> %0, i64 1
  %8 = getelementptr inbounds float, ptr %5, i64 1
  store float %7, ptr %8, align 4
  %9 = extractelement <3 x float> %0, i64 2
  %10 = add i64 %4, 2
  %11 = getelementptr inbounds float, ptr %2, i64 %10
  store float %9, ptr %11, align 4
  ret void
}

define void @_Z11_cl_vstore4Dv4_fmPU8CLglobalf(<4 x float> noundef %0, i64 noundef %1, ptr noundef writeonly captures(none) %2) local_unnamed_addr {
  %4 = bitcast <4 x float> %0 to <2 x double>
  %5 = extractelement <2 x double> %4, i64 0
  %6 = shl i64 %1, 2
  %7 = getelementptr inbounds float, ptr %2, i64 %6
  %8 = bitcast double %5 to <2 x float>
  %9 = extractelement <2 x double> %4, i64 1
  %10 = bitcast double %9 to <2 x float>
  %11 = shufflevector <2 x float> %8, <2 x float> %10, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %12 = bitcast ptr %7 to ptr
  store <4 x float> %11, ptr %12, align 4
  ret void
}

define float @_Z12__pocl_expep7v2float(<2 x float> %0) local_unnamed_addr {
  %2 = extractelement <2 x float> %0, i64 1
  %3 = fmul float %2, 0x3FF7154760000000
  %4 = fadd float %3, 5.000000e-01
  %5 = fptosi float %4 to i32
  %6 = sitofp i32 %5 to float
  %7 = fsub float %4, %6
  %8 = fcmp olt float %7, 0.000000e+00
  br i1 %8, label %14, label %9

9:
  %10 = and i32 %5, 1
  %11 = icmp ne i32 %10, 0
  %12 = fcmp oeq float %7, 0.000000e+00
  %13 = select i1 %12, i1 %11, i1 false
  br i1 %13, label %14, label %16

14:
  %15 = fadd float %7, 1.000000e+00
  br label %16

16:
  %17 = phi float [ %15, %14 ], [ %7, %9 ]
  %18 = fcmp oeq float %3, 0x3FE0000020000000
  %19 = select i1 %18, float 0.000000e+00, float %4
  %20 = fcmp une float %3, 0x7FF0000000000000
  %21 = fcmp une float %3, 0xFFF0000000000000
  %22 = and i1 %20, %21
  br i1 %22, label %23, label %_Z8_cl_rintf.exit

23:
  %24 = bitcast float %3 to i32
  %25 = and i32 %24, 2147483647
  %26 = bitcast i32 %25 to float
  %27 = fcmp ult float %26, 0x4160000000000000
  br i1 %27, label %28, label %_Z8_cl_rintf.exit

28:
  %29 = fsub float %19, %17
  %30 = bitcast float %29 to i32
  %31 = and i32 %30, 2147483647
  %32 = and i32 %24, -2147483648
  %33 = or i32 %31, %32
  %34 = bitcast i32 %33 to float
  br label %_Z8_cl_rintf.exit

_Z8_cl_rintf.exit:
  %35 = phi float [ %34, %28 ], [ %3, %23 ], [ %3, %16 ]
  %36 = fmul float %35, 0x3FE62E4000000000
  %37 = fsub float %2, %36
  %38 = fsub float %37, %2
  %39 = fsub float %37, %38
  %40 = fsub float %2, %39
  %41 = fadd float %36, %38
  %42 = fsub float %40, %41
  %43 = extractelement <2 x float> %0, i64 0
  %44 = fadd float %43, %42
  %45 = fadd float %37, %44
  %46 = fsub float %45, %37
  %47 = fsub float %44, %46
  %48 = fmul float %35, 0x3EB7F78000000000
  %49 = fsub float %45, %48
  %50 = fsub float %45, %49
  %51 = fsub float %50, %48
  %52 = fadd float %47, %51
  %53 = fadd float %49, %52
  %54 = fsub float %53, %49
  %55 = fsub float %52, %54
  %56 = fmul float %35, 0x3DD473DE60000000
  %57 = fsub float %53, %56
  %58 = fsub float %53, %57
  %59 = fsub float %58, %56
  %60 = fadd float %55, %59
  %61 = fadd float %57, %60
  %62 = fsub float %61, %57
  %63 = fsub float %60, %62
  %64 = tail call float @llvm.fma.f32(float %61, float 0x3F56850E40000000, float 0x3F8123BCC0000000)
  %65 = tail call float @llvm.fma.f32(float %61, float %64, float 0x3FA555B980000000)
  %66 = tail call float @llvm.fma.f32(float %61, float %65, float 0x3FC55548E0000000)
  %67 = tail call float @llvm.fma.f32(float %61, float %66, float 0x3FDFFFFF80000000)
  %68 = fmul float %61, %61
  %69 = bitcast float %61 to i32
  %70 = and i32 %69, -4096
  %71 = bitcast i32 %70 to float
  %72 = fsub float %61, %71
  %73 = fmul float %71, %71
  %74 = fsub float %73, %68
  %75 = fmul float %71, 2.000000e+00
  %76 = fmul float %75, %72
  %77 = fadd float %74, %76
  %78 = fmul float %72, %72
  %79 = fadd float %78, %77
  %80 = fmul float %61, %63
  %81 = fmul float %80, 2.000000e+00
  %82 = fadd float %81, %79
  %83 = fmul float %63, %63
  %84 = fadd float %83, %82
  %85 = fadd float %68, %84
  %86 = fsub float %85, %68
  %87 = fsub float %84, %86
  %88 = bitcast float %85 to i32
  %89 = and i32 %88, -4096
  %90 = bitcast i32 %89 to float
  %91 = fsub float %85, %90
  %92 = bitcast float %67 to i32
  %93 = and i32 %92, -4096
  %94 = bitcast i32 %93 to float
  %95 = fsub float %67, %94
  %96 = fmul float %67, %85
  %97 = fmul float %94, %90
  %98 = fsub float %97, %96
  %99 = fmul float %95, %90
  %100 = fadd float %99, %98
  %101 = fmul float %91, %94
  %102 = fadd float %101, %100
  %103 = fmul float %95, %91
  %104 = fadd float %103, %102
  %105 = fmul float %67, %87
  %106 = fadd float %105, %104
  %107 = fadd float %96, %106
  %108 = fsub float %107, %96
  %109 = fsub float %106, %108
  %110 = fadd float %61, %107
  %111 = fsub float %110, %61
  %112 = fsub float %107, %111
  %113 = fadd float %63, %109
  %114 = fadd float %113, %112
  %115 = fadd float %110, %114
  %116 = fadd float %115, 1.000000e+00
  %117 = fptosi float %35 to i32
  %118 = icmp slt i32 %117, 300
  %119 = select i1 %118, i32 %117, i32 300
  %120 = icmp sgt i32 %119, -300
  %121 = select i1 %120, i32 %119, i32 -300
  %122 = ashr i32 %121, 2
  %123 = lshr i32 %121, 31
  %124 = add nsw i32 %122, %123
  %125 = add nsw i32 %121, 49
  %126 = icmp ult i32 %125, 99
  %127 = select i1 %126, i32 0, i32 %124
  %128 = mul nsw i32 %127, -4
  %129 = add nsw i32 %128, %121
  %130 = shl nsw i32 %127, 23
  %131 = add i32 %130, 1065353216
  %132 = bitcast i32 %131 to float
  %133 = shl i32 %129, 23
  %134 = add i32 %133, 1065353216
  %135 = bitcast i32 %134 to float
  %136 = fmul float %116, %135
  %137 = fmul float %136, %132
  %138 = fmul float %137, %132
  %139 = fmul float %138, %132
  %140 = fmul float %139, %132
  %141 = fcmp ogt float %2, 8.900000e+01
  %142 = select i1 %141, float 0x7FF0000000000000, float %140
  %143 = fcmp olt float %2, -1.040000e+02
  %144 = select i1 %143, float 0.000000e+00, float %142
  ret float %144
}

define void @_Z12_cl_prefetchPU8CLglobalKfm(ptr noundef captures(none) %0, i64 noundef %1) local_unnamed_addr {
  ret void
}

define i64 @_Z12get_group_idj(i32 noundef %0) local_unnamed_addr {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %4
    i32 2, label %6
  ]

2:
  %3 = load i64, ptr @_group_id_x, align 8
  br label %8

4:
  %5 = load i64, ptr @_group_id_y, align 8
  br label %8

6:
  %7 = load i64, ptr @_group_id_z, align 8
  br label %8

8:
  %9 = phi i64 [ %7, %6 ], [ %5, %4 ], [ %3, %2 ], [ 0, %1 ]
  ret i64 %9
}

define i64 @_Z12get_local_idj(i32 noundef %0) local_unnamed_addr {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %4
    i32 2, label %6
  ]

2:
  %3 = load i64, ptr @_local_id_x, align 8
  br label %8

4:
  %5 = load i64, ptr @_local_id_y, align 8
  br label %8

6:
  %7 = load i64, ptr @_local_id_z, align 8
  br label %8

8:
  %9 = phi i64 [ %7, %6 ], [ %5, %4 ], [ %3, %2 ], [ 0, %1 ]
  ret i64 %9
}

define i64 @_Z13get_global_idj(i32 noundef %0) local_unnamed_addr {
  %2 = alloca i64, align 8
  %3 = alloca i32, align 4
  store i32 %0, ptr %3, align 4
  %4 = load i32, ptr %3, align 4
  switch i32 %4, label %29 [
    i32 0, label %5
    i32 1, label %13
    i32 2, label %21
  ]

5:
  %6 = load i64, ptr @_global_offset_x, align 8
  %7 = load i64, ptr @_local_size_x, align 8
  %8 = load i64, ptr @_group_id_x, align 8
  %9 = mul i64 %7, %8
  %10 = add i64 %6, %9
  %11 = call i64 @_Z12get_local_idj(i32 noundef 0)
  %12 = add i64 %10, %11
  store i64 %12, ptr %2, align 8
  br label %30

13:
  %14 = load i64, ptr @_global_offset_y, align 8
  %15 = load i64, ptr @_local_size_y, align 8
  %16 = load i64, ptr @_group_id_y, align 8
  %17 = mul i64 %15, %16
  %18 = add i64 %14, %17
  %19 = call i64 @_Z12get_local_idj(i32 noundef 1)
  %20 = add i64 %18, %19
  store i64 %20, ptr %2, align 8
  br label %30

21:
  %22 = load i64, ptr @_global_offset_z, align 8
  %23 = load i64, ptr @_local_size_z, align 8
  %24 = load i64, ptr @_group_id_z, align 8
  %25 = mul i64 %23, %24
  %26 = add i64 %22, %25
  %27 = call i64 @_Z12get_local_idj(i32 noundef 2)
  %28 = add i64 %26, %27
  store i64 %28, ptr %2, align 8
  br label %30

29:
  store i64 0, ptr %2, align 8
  br label %30

30:
  %31 = load i64, ptr %2, align 8
  ret i64 %31
}

define i32 @_Z14_cl_atomic_incPU7CLlocalVi(ptr noundef captures(none) %0) local_unnamed_addr {
  %2 = atomicrmw add ptr %0, i32 1 seq_cst, align 4
  ret i32 %2
}

define i32 @_Z14_cl_atomic_incPU8CLglobalVi(ptr noundef captures(none) %0) local_unnamed_addr {
  %2 = atomicrmw add ptr %0, i32 1 seq_cst, align 4
  ret i32 %2
}

define i64 @_Z14get_local_sizej(i32 noundef %0) local_unnamed_addr {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %4
    i32 2, label %6
  ]

2:
  %3 = load i64, ptr @_local_size_x, align 8
  br label %8

4:
  %5 = load i64, ptr @_local_size_y, align 8
  br label %8

6:
  %7 = load i64, ptr @_local_size_z, align 8
  br label %8

8:
  %9 = phi i64 [ %7, %6 ], [ %5, %4 ], [ %3, %2 ], [ 0, %1 ]
  ret i64 %9
}

define i64 @_Z14get_num_groupsj(i32 noundef %0) local_unnamed_addr {
  switch i32 %0, label %8 [
    i32 0, label %2
    i32 1, label %4
    i32 2, label %6
  ]

2:
  %3 = load i64, ptr @_num_groups_x, align 8
  br label %8

4:
  %5 = load i64, ptr @_num_groups_y, align 8
  br label %8

6:
  %7 = load i64, ptr @_num_groups_z, align 8
  br label %8

8:
  %9 = phi i64 [ %7, %6 ], [ %5, %4 ], [ %3, %2 ], [ 0, %1 ]
  ret i64 %9
}

define i64 @_Z15get_global_sizej(i32 noundef %0) local_unnamed_addr {
  switch i32 %0, label %14 [
    i32 0, label %2
    i32 1, label %6
    i32 2, label %10
  ]

2:
  %3 = load i64, ptr @_local_size_x, align 8
  %4 = load i64, ptr @_num_groups_x, align 8
  %5 = mul i64 %4, %3
  br label %14

6:
  %7 = load i64, ptr @_local_size_y, align 8
  %8 = load i64, ptr @_num_groups_y, align 8
  %9 = mul i64 %8, %7
  br label %14

10:
  %11 = load i64, ptr @_local_size_z, align 8
  %12 = load i64, ptr @_num_groups_z, align 8
  %13 = mul i64 %12, %11
  br label %14

14:
  %15 = phi i64 [ %13, %10 ], [ %9, %6 ], [ %5, %2 ], [ 0, %1 ]
  ret i64 %15
}

define i32 @_Z20__pocl_argReductionSPU9CLprivatefS0_f(ptr noundef writeonly captures(none) %0, ptr noundef writeonly captures(none) %1, float noundef %2) local_unnamed_addr {
  %4 = tail call float @llvm.fma.f32(float %2, float 0x3FE45F3060000000, float 5.000000e-01)
  %5 = fptosi float %4 to i32
  %6 = sitofp i32 %5 to float
  %7 = fsub float %4, %6
  %8 = fcmp une float %4, 0x7FF0000000000000
  %9 = fcmp une float %4, 0xFFF0000000000000
  %10 = and i1 %8, %9
  br i1 %10, label %11, label %_Z17__pocl_removePi2SPU9CLprivatefS0_f.exit

11:
  %12 = bitcast float %4 to i32
  %13 = and i32 %12, 2147483647
  %14 = bitcast i32 %13 to float
  %15 = fcmp ult float %14, 0x4160000000000000
  br i1 %15, label %16, label %_Z17__pocl_removePi2SPU9CLprivatefS0_f.exit

16:
  %17 = fsub float %4, %7
  %18 = bitcast float %17 to i32
  %19 = and i32 %18, 2147483647
  %20 = and i32 %12, -2147483648
  %21 = or i32 %19, %20
  %22 = bitcast i32 %21 to float
  %.pre = fptosi float %22 to i32
  br label %_Z17__pocl_removePi2SPU9CLprivatefS0_f.exit

_Z17__pocl_removePi2SPU9CLprivatefS0_f.exit:
  %.pre-phi = phi i32 [ %5, %3 ], [ %5, %11 ], [ %.pre, %16 ]
  %23 = phi float [ %4, %3 ], [ %4, %11 ], [ %22, %16 ]
  %24 = bitcast float %23 to i32
  %25 = and i32 %24, -4096
  %26 = bitcast i32 %25 to float
  %27 = fsub float %23, %26
  %28 = fmul float %23, 0x3FF921FB40000000
  %29 = fneg float %28
  %30 = tail call float @llvm.fma.f32(float %26, float 0x3FF9200000000000, float %29)
  %31 = tail call float @llvm.fma.f32(float %26, float 0x3F3FB40000000000, float %30)
  %32 = tail call float @llvm.fma.f32(float %27, float 0x3FF9200000000000, float %31)
  %33 = tail call float @llvm.fma.f32(float %27, float 0x3F3FB40000000000, float %32)
  %34 = fsub float %2, %28
  %35 = fsub float %2, %34
  %36 = fsub float %35, %28
  %37 = fsub float %36, %33
  %38 = fadd float %34, %37
  %39 = fmul float %23, 0x3E74442D00000000
  %40 = fneg float %39
  %41 = tail call float @llvm.fma.f32(float %26, float 0x3E74440000000000, float %40)
  %42 = tail call float @llvm.fma.f32(float %26, float 0x3D86800000000000, float %41)
  %43 = tail call float @llvm.fma.f32(float %27, float 0x3E74440000000000, float %42)
  %44 = tail call float @llvm.fma.f32(float %27, float 0x3D86800000000000, float %43)
  %45 = fsub float %38, %39
  %46 = fsub float %38, %45
  %47 = fsub float %46, %39
  %48 = fsub float %47, %44
  %49 = fadd float %45, %48
  %50 = fmul float %23, 0x3CF8469880000000
  %51 = fneg float %50
  %52 = tail call float @llvm.fma.f32(float %26, float 0x3CF8460000000000, float %51)
  %53 = tail call float @llvm.fma.f32(float %26, float 0x3C23100000000000, float %52)
  %54 = tail call float @llvm.fma.f32(float %27, float 0x3CF8460000000000, float %53)
  %55 = tail call float @llvm.fma.f32(float %27, float 0x3C23100000000000, float %54)
  %56 = fsub float %49, %50
  %57 = fsub float %49, %56
  %58 = fsub float %57, %50
  %59 = fadd float %56, %58
  store float %59, ptr %0, align 4
  %60 = fneg float %55
  store float %60, ptr %1, align 4
  %61 = and i32 %.pre-phi, 3
  %62 = fcmp ult float %2, 0x4160000000000000
  br i1 %62, label %65, label %63

63:
  %64 = tail call i32 @_Z25__pocl_argReductionLargeSPU9CLprivatefS0_f(ptr noundef nonnull %0, ptr noundef nonnull %1, float noundef %2)
  br label %65

65:
  %66 = phi i32 [ %64, %63 ], [ %61, %_Z17__pocl_removePi2SPU9CLprivatefS0_f.exit ]
  ret i32 %66
}

define i32 @_Z25__pocl_argReductionLargeSPU9CLprivatefS0_f(ptr noundef writeonly captures(none) %0, ptr noundef writeonly captures(none) %1, float noundef %2) local_unnamed_addr {
  %4 = bitcast float %2 to i32
  %5 = ashr i32 %4, 23
  %6 = and i32 %4, 8388607
  %7 = or i32 %6, 8388608
  %8 = mul i32 %7, -28220501
  %9 = lshr i32 %7, 16
  %10 = and i32 %4, 65535
  %11 = mul nuw nsw i32 %9, 65105
  %12 = mul nuw nsw i32 %9, 25515
  %13 = mul nuw i32 %10, 65105
  %14 = mul nuw nsw i32 %10, 25515
  %15 = lshr i32 %14, 16
  %16 = add nuw i32 %15, %13
  %17 = lshr i32 %12, 1
  %18 = lshr i32 %16, 1
  %19 = add nuw i32 %18, %17
  %20 = and i32 %12, 1
  %21 = and i32 %20, %16
  %22 = add nuw i32 %19, %21
  %23 = lshr i32 %22, 15
  %24 = add nuw nsw i32 %23, %11
  %25 = mul i32 %7, 1011060801
  %26 = add i32 %24, %25
  %27 = mul nuw nsw i32 %9, 15427
  %28 = mul nuw nsw i32 %9, 36929
  %29 = mul nuw nsw i32 %10, 15427
  %30 = mul nuw i32 %10, 36929
  %31 = lshr i32 %30, 16
  %32 = add nuw nsw i32 %31, %29
  %33 = lshr i32 %28, 1
  %34 = lshr i32 %32, 1
  %35 = add nuw nsw i32 %34, %33
  %36 = and i32 %28, 1
  %37 = and i32 %36, %32
  %38 = add nuw nsw i32 %35, %37
  %39 = lshr i32 %38, 15
  %40 = add nuw nsw i32 %39, %27
  %41 = icmp ult i32 %26, %24
  %42 = zext i1 %41 to i32
  %43 = add nuw nsw i32 %40, %42
  %44 = mul i32 %7, -614296167
  %45 = add i32 %43, %44
  %46 = mul nuw nsw i32 %9, 56162
  %47 = mul nuw nsw i32 %9, 38297
  %48 = mul nuw i32 %10, 56162
  %49 = mul nuw i32 %10, 38297
  %50 = lshr i32 %49, 16
  %51 = add nuw i32 %50, %48
  %52 = lshr i32 %47, 1
  %53 = lshr i32 %51, 1
  %54 = add nuw i32 %53, %52
  %55 = and i32 %47, 1
  %56 = and i32 %55, %51
  %57 = add nuw i32 %54, %56
  %58 = lshr i32 %57, 15
  %59 = add nuw nsw i32 %58, %46
  %60 = icmp ult i32 %45, %43
  %61 = zext i1 %60 to i32
  %62 = add nuw nsw i32 %59, %61
  %63 = mul i32 %7, -181084736
  %64 = add i32 %62, %63
  %65 = mul nuw nsw i32 %9, 62772
  %66 = mul nuw nsw i32 %9, 56768
  %67 = mul nuw i32 %10, 62772
  %68 = mul nuw i32 %10, 56768
  %69 = lshr i32 %68, 16
  %70 = add nuw i32 %69, %67
  %71 = lshr exact i32 %66, 1
  %72 = lshr i32 %70, 1
  %73 = add nuw i32 %72, %71
  %74 = lshr i32 %73, 15
  %75 = add nuw nsw i32 %74, %65
  %76 = icmp ult i32 %64, %62
  %77 = zext i1 %76 to i32
  %78 = add nuw nsw i32 %75, %77
  %79 = mul i32 %7, -64530479
  %80 = add i32 %78, %79
  %81 = mul nuw nsw i32 %9, 64551
  %82 = mul nuw nsw i32 %9, 22481
  %83 = mul nuw i32 %10, 64551
  %84 = mul nuw nsw i32 %10, 22481
  %85 = lshr i32 %84, 16
  %86 = add nuw i32 %85, %83
  %87 = lshr i32 %82, 1
  %88 = lshr i32 %86, 1
  %89 = add nuw i32 %88, %87
  %90 = and i32 %82, 1
  %91 = and i32 %90, %86
  %92 = add nuw i32 %89, %91
  %93 = lshr i32 %92, 15
  %94 = add nuw nsw i32 %93, %81
  %95 = icmp ult i32 %80, %78
  %96 = zext i1 %95 to i32
  %97 = add nuw nsw i32 %94, %96
  %98 = mul i32 %7, 1313084713
  %99 = add i32 %97, %98
  %100 = mul nuw nsw i32 %9, 20036
  %101 = mul nuw nsw i32 %9, 5417
  %102 = mul nuw nsw i32 %10, 20036
  %103 = mul nuw nsw i32 %10, 5417
  %104 = lshr i32 %103, 16
  %105 = add nuw nsw i32 %104, %102
  %106 = lshr i32 %101, 1
  %107 = lshr i32 %105, 1
  %108 = add nuw nsw i32 %107, %106
  %109 = and i32 %101, 1
  %110 = and i32 %109, %105
  %111 = add nuw nsw i32 %108, %110
  %112 = lshr i32 %111, 15
  %113 = add nuw nsw i32 %112, %100
  %114 = icmp ult i32 %99, %97
  %115 = zext i1 %114 to i32
  %116 = add nuw nsw i32 %113, %115
  %117 = mul i32 %7, -1560706194
  %118 = add i32 %116, %117
  %119 = mul nuw nsw i32 %9, 41721
  %120 = mul nuw nsw i32 %9, 33646
  %121 = mul nuw i32 %10, 41721
  %122 = mul nuw i32 %10, 33646
  %123 = lshr i32 %122, 16
  %124 = add nuw i32 %123, %121
  %125 = lshr exact i32 %120, 1
  %126 = lshr i32 %124, 1
  %127 = add nuw i32 %126, %125
  %128 = lshr i32 %127, 15
  %129 = add nuw nsw i32 %128, %119
  %130 = icmp ult i32 %118, %116
  %131 = zext i1 %130 to i32
  %132 = add nuw nsw i32 %129, %131
  %133 = add nsw i32 %5, -120
  %134 = icmp sgt i32 %4, 1275068415
  %135 = select i1 %134, i32 %118, i32 %132
  %136 = select i1 %134, i32 %99, i32 %118
  %137 = select i1 %134, i32 %80, i32 %99
  %138 = select i1 %134, i32 %64, i32 %80
  %139 = select i1 %134, i32 %45, i32 %64
  %140 = select i1 %134, i32 %26, i32 %45
  %141 = select i1 %134, i32 %8, i32 %26
  %142 = select i1 %134, i32 -32, i32 0
  %143 = add nsw i32 %133, %142
  %144 = icmp sgt i32 %143, 31
  %145 = select i1 %144, i32 %136, i32 %135
  %146 = select i1 %144, i32 %137, i32 %136
  %147 = select i1 %144, i32 %138, i32 %137
  %148 = select i1 %144, i32 %139, i32 %138
  %149 = select i1 %144, i32 %140, i32 %139
  %150 = select i1 %144, i32 %141, i32 %140
  %151 = select i1 %144, i32 -32, i32 0
  %152 = add nsw i32 %151, %143
  %153 = icmp sgt i32 %152, 31
  %154 = select i1 %153, i32 %146, i32 %145
  %155 = select i1 %153, i32 %147, i32 %146
  %156 = select i1 %153, i32 %148, i32 %147
  %157 = select i1 %153, i32 %149, i32 %148
  %158 = select i1 %153, i32 %150, i32 %149
  %159 = select i1 %153, i32 -32, i32 0
  %160 = add nsw i32 %159, %152
  %161 = icmp sgt i32 %160, 31
  %162 = select i1 %161, i32 %155, i32 %154
  %163 = select i1 %161, i32 %156, i32 %155
  %164 = select i1 %161, i32 %157, i32 %156
  %165 = select i1 %161, i32 %158, i32 %157
  %166 = select i1 %161, i32 -32, i32 0
  %167 = add nsw i32 %166, %160
  %168 = icmp sgt i32 %167, 0
  %169 = sub nsw i32 0, %167
  %170 = and i32 %167, 31
  %171 = shl i32 %162, %170
  %172 = and i32 %169, 31
  %173 = lshr i32 %163, %172
  %174 = or i32 %171, %173
  %175 = shl i32 %163, %170
  %176 = lshr i32 %164, %172
  %177 = or i32 %175, %176
  %178 = shl i32 %164, %170
  %179 = lshr i32 %165, %172
  %180 = or i32 %178, %179
  %181 = select i1 %168, i32 %174, i32 %162
  %182 = select i1 %168, i32 %177, i32 %163
  %183 = select i1 %168, i32 %180, i32 %164
  %184 = lshr i32 %181, 29
  %185 = tail call i32 @llvm.fshl.i32(i32 %181, i32 %182, i32 2)
  %186 = tail call i32 @llvm.fshl.i32(i32 %182, i32 %183, i32 2)
  %187 = tail call i32 @llvm.fshl.i32(i32 %183, i32 %165, i32 2)
  %188 = shl i32 %181, 2
  %189 = and i32 %188, -2147483648
  %190 = ashr exact i32 %189, 31
  %191 = xor i32 %190, %185
  %192 = xor i32 %190, %186
  %193 = xor i32 %190, %187
  %194 = tail call i32 @llvm.ctlz.i32(i32 %191, i1 false) #37
  %195 = add nuw nsw i32 %194, 1
  %196 = sub nsw i32 31, %194
  %197 = and i32 %195, 31
  %198 = shl i32 %191, %197
  %199 = and i32 %196, 31
  %200 = lshr i32 %192, %199
  %201 = or i32 %198, %200
  %202 = shl i32 %192, %197
  %203 = lshr i32 %193, %199
  %204 = or i32 %202, %203
  %205 = mul nsw i32 %194, -8388608
  %206 = add nsw i32 %205, 1056964608
  %207 = or i32 %206, %189
  %208 = lshr i32 %201, 9
  %209 = or i32 %207, %208
  %210 = bitcast i32 %209 to float
  %211 = tail call i32 @llvm.fshl.i32(i32 %201, i32 %204, i32 23)
  %212 = tail call i32 @llvm.ctlz.i32(i32 %211, i1 false) #37
  %213 = xor i32 %212, -1
  %214 = add nuw nsw i32 %212, 1
  %215 = sub nsw i32 31, %212
  %216 = and i32 %214, 31
  %217 = shl i32 %211, %216
  %218 = and i32 %215, 31
  %219 = lshr i32 %204, %218
  %220 = or i32 %217, %219
  %221 = sub nuw nsw i32 488, %194
  %222 = add nsw i32 %221, %213
  %223 = shl nuw i32 %222, 23
  %224 = add nsw i32 %223, 1065353216
  %225 = or i32 %224, %189
  %226 = lshr i32 %220, 9
  %227 = or i32 %225, %226
  %228 = bitcast i32 %227 to float
  %229 = and i32 %209, -4096
  %230 = bitcast i32 %229 to float
  %231 = fsub float %210, %230
  %232 = fmul float %210, 0x3FF921FB40000000
  %233 = fneg float %232
  %234 = tail call float @llvm.fma.f32(float %230, float 0x3FF9200000000000, float %233)
  %235 = tail call float @llvm.fma.f32(float %230, float 0x3F3FB40000000000, float %234)
  %236 = tail call float @llvm.fma.f32(float %231, float 0x3FF9200000000000, float %235)
  %237 = tail call float @llvm.fma.f32(float %231, float 0x3F3FB40000000000, float %236)
  %238 = tail call float @llvm.fma.f32(float %210, float 0x3E74442D00000000, float %237)
  %239 = tail call float @llvm.fma.f32(float %228, float 0x3FF921FB40000000, float %238)
  %240 = fadd float %232, %239
  %241 = fsub float %240, %232
  %242 = fsub float %239, %241
  store float %240, ptr %0, align 4
  store float %242, ptr %1, align 4
  %243 = lshr i32 %181, 30
  %244 = and i32 %184, 1
  %245 = add nuw nsw i32 %244, %243
  %246 = and i32 %245, 3
  ret i32 %246
}

define float @_Z7_cl_dotDv4_fS_(<4 x float> noundef %0, <4 x float> noundef %1) local_unnamed_addr {
  %3 = bitcast <4 x float> %0 to <2 x double>
  %4 = extractelement <2 x double> %3, i64 0
  %5 = bitcast <4 x float> %1 to <2 x double>
  %6 = extractelement <2 x double> %5, i64 0
  %7 = bitcast double %4 to <2 x float>
  %8 = bitcast double %6 to <2 x float>
  %9 = fmul <2 x float> %7, %8
  %10 = shufflevector <2 x float> %9, <2 x float> poison, <2 x i32> <i32 1, i32 poison>
  %11 = fadd <2 x float> %9, %10
  %12 = extractelement <2 x double> %3, i64 1
  %13 = extractelement <2 x double> %5, i64 1
  %14 = bitcast double %12 to <2 x float>
  %15 = bitcast double %13 to <2 x float>
  %16 = fmul <2 x float> %14, %15
  %17 = shufflevector <2 x float> %16, <2 x float> poison, <2 x i32> <i32 1, i32 poison>
  %18 = fadd <2 x float> %16, %17
  %19 = fadd <2 x float> %11, %18
  %20 = extractelement <2 x float> %19, i64 0
  ret float %20
}

define float @_Z7_cl_expf(float noundef %0) local_unnamed_addr {
  %2 = fmul float %0, 0x3FF7154760000000
  %3 = fcmp olt float %2, 0.000000e+00
  %4 = select i1 %3, float -5.000000e-01, float 5.000000e-01
  %5 = fadd float %2, %4
  %6 = fptosi float %5 to i32
  %7 = sitofp i32 %6 to float
  %8 = fmul float %7, 0x3FE62E4000000000
  %9 = fsub float %0, %8
  %10 = fmul float %7, 0x3EB7F7D1C0000000
  %11 = fsub float %9, %10
  %12 = fmul float %11, 0x3F2A057B40000000
  %13 = fadd float %12, 0x3F56D2D920000000
  %14 = fmul float %11, %13
  %15 = fadd float %14, 0x3F811114C0000000
  %16 = fmul float %11, %15
  %17 = fadd float %16, 0x3FA5554F40000000
  %18 = fmul float %11, %17
  %19 = fadd float %18, 0x3FC5555560000000
  %20 = fmul float %11, %19
  %21 = fadd float %20, 5.000000e-01
  %22 = fmul float %11, %11
  %23 = fmul float %22, %21
  %24 = fadd float %11, %23
  %25 = fadd float %24, 1.000000e+00
  %26 = ashr i32 %6, 1
  %27 = shl i32 %26, 23
  %28 = add i32 %27, 1065353216
  %29 = bitcast i32 %28 to float
  %30 = fmul float %25, %29
  %31 = sub nsw i32 %6, %26
  %32 = shl i32 %31, 23
  %33 = add i32 %32, 1065353216
  %34 = bitcast i32 %33 to float
  %35 = fmul float %30, %34
  %36 = fcmp olt float %0, -1.040000e+02
  %37 = select i1 %36, float 0.000000e+00, float %35
  %38 = fcmp ogt float %0, 1.040000e+02
  %39 = select i1 %38, float 0x7FF0000000000000, float %37
  ret float %39
}

define float @_Z7_cl_powff(float noundef %0, float noundef %1) local_unnamed_addr {
_Z9_cl_truncf.exit:
  %2 = bitcast float %0 to i32
  %3 = and i32 %2, 2147483647
  %4 = bitcast i32 %3 to float
  %5 = bitcast float %1 to i32
  %6 = and i32 %5, 2147483647
  %7 = bitcast i32 %6 to float
  %8 = icmp ult i32 %6, 8388608
  %9 = and i32 %5, -2147483648
  %10 = bitcast i32 %9 to float
  %11 = select i1 %8, float %10, float %1
  %12 = tail call <2 x float> @_Z11__pocl_eplnf(float noundef %4)
  %13 = extractelement <2 x float> %12, i64 1
  %14 = insertelement <2 x float> %12, float %11, i64 0
  %15 = bitcast <2 x float> %14 to <2 x i32>
  %16 = and <2 x i32> %15, splat (i32 -4096)
  %17 = bitcast <2 x i32> %16 to <2 x float>
  %18 = fsub <2 x float> %14, %17
  %19 = fmul float %11, %13
  %shift = shufflevector <2 x float> %17, <2 x float> poison, <2 x i32> <i32 1, i32 poison>
  %20 = fmul <2 x float> %shift, %17
  %21 = extractelement <2 x float> %20, i64 0
  %22 = fsub float %21, %19
  %shuffle = shufflevector <2 x float> %17, <2 x float> poison, <2 x i32> <i32 1, i32 0>
  %23 = fmul <2 x float> %18, %shuffle
  %24 = extractelement <2 x float> %23, i64 1
  %25 = fadd float %22, %24
  %26 = extractelement <2 x float> %23, i64 0
  %27 = fadd float %26, %25
  %shift7 = shufflevector <2 x float> %18, <2 x float> poison, <2 x i32> <i32 1, i32 poison>
  %28 = fmul <2 x float> %18, %shift7
  %29 = extractelement <2 x float> %28, i64 0
  %30 = fadd float %29, %27
  %31 = extractelement <2 x float> %12, i64 0
  %32 = fmul float %11, %31
  %33 = fadd float %32, %30
  %34 = fadd float %19, %33
  %35 = fsub float %34, %19
  %36 = fsub float %33, %35
  %37 = bitcast float %19 to i32
  %38 = and i32 %37, 2147483647
  %.not.i = icmp eq i32 %38, 2139095040
  %39 = select i1 %.not.i, float %19, float %34
  %40 = bitcast float %39 to i32
  %41 = and i32 %40, 2147483647
  %.not1.i = icmp eq i32 %41, 2139095040
  %42 = select i1 %.not1.i, float 0.000000e+00, float %36
  %43 = insertelement <2 x float> undef, float %42, i64 0
  %44 = insertelement <2 x float> %43, float %39, i64 1
  %45 = tail call float @_Z12__pocl_expep7v2float(<2 x float> %44)
  %46 = fptosi float %7 to i32
  %47 = sitofp i32 %46 to float
  %48 = fsub float %7, %47
  %49 = fcmp une float %7, 0x7FF0000000000000
  %50 = fcmp une float %7, 0xFFF0000000000000
  %51 = and i1 %49, %50
  %52 = fcmp ult float %7, 0x4160000000000000
  %or.cond = and i1 %52, %51
  %53 = fsub float %7, %48
  %54 = bitcast float %53 to i32
  %55 = and i32 %54, 2147483647
  %56 = bitcast i32 %55 to float
  %57 = select i1 %or.cond, float %56, float %7
  %58 = fcmp oeq float %57, %7
  br i1 %58, label %59, label %97

59:
  %60 = fmul float %57, 5.000000e-01
  %61 = fptosi float %60 to i32
  %62 = sitofp i32 %61 to float
  %63 = fsub float %60, %62
  %64 = fcmp une float %60, 0x7FF0000000000000
  %65 = fcmp une float %60, 0xFFF0000000000000
  %66 = and i1 %64, %65
  %67 = bitcast float %60 to i32
  %68 = and i32 %67, 2147483647
  %69 = bitcast i32 %68 to float
  %70 = fcmp ult float %69, 0x4160000000000000
  %or.cond.i = and i1 %66, %70
  br i1 %or.cond.i, label %71, label %_Z9_cl_fractfPU9CLprivatef.exit

71:
  %72 = fcmp olt float %63, 0.000000e+00
  %73 = fadd float %63, 1.000000e+00
  %74 = select i1 %72, float %73, float %63
  %75 = fsub float %60, %74
  %76 = bitcast float %75 to i32
  %77 = and i32 %76, 2147483647
  %78 = and i32 %67, -2147483648
  %79 = or i32 %77, %78
  %80 = bitcast i32 %79 to float
  br label %_Z9_cl_fractfPU9CLprivatef.exit

_Z9_cl_fractfPU9CLprivatef.exit:
  %81 = phi float [ %80, %71 ], [ %60, %59 ]
  %82 = shl i32 %67, 1
  %83 = icmp ult i32 %82, -16777215
  %.not.i1 = icmp eq i32 %68, 2139095040
  %84 = fsub float %60, %81
  %85 = fcmp olt float %84, 0x3FEFFFFFE0000000
  %86 = select i1 %85, float %84, float 0x3FEFFFFFE0000000
  %87 = select i1 %.not.i1, float 0.000000e+00, float %86
  %88 = select i1 %83, float %87, float 0x7FFFFFFFE0000000
  %89 = fcmp une float %88, 0.000000e+00
  %90 = zext i1 %89 to i32
  %91 = fcmp ogt float %4, %0
  %92 = and i1 %91, %89
  br i1 %92, label %93, label %97

93:
  %94 = bitcast float %45 to i32
  %95 = or i32 %94, -2147483648
  %96 = bitcast i32 %95 to float
  br label %97

97:
  %98 = phi i32 [ 1, %93 ], [ %90, %_Z9_cl_fractfPU9CLprivatef.exit ], [ 0, %_Z9_cl_truncf.exit ]
  %99 = phi float [ %96, %93 ], [ %45, %_Z9_cl_fractfPU9CLprivatef.exit ], [ %45, %_Z9_cl_truncf.exit ]
  %100 = icmp eq i32 %3, 0
  %101 = icmp eq i32 %6, 0
  %102 = fcmp olt float %4, 1.000000e+00
  %103 = fcmp ogt float %4, 1.000000e+00
  %104 = icmp ult i32 %3, 2139095041
  %105 = icmp ult i32 %6, 2139095041
  %106 = fcmp oeq float %7, 0x7FF0000000000000
  %107 = bitcast float %11 to i32
  %108 = xor i32 %107, -1
  %109 = lshr i32 %2, 31
  %110 = insertelement <2 x i32> poison, i32 %108, i64 0
  %111 = insertelement <2 x i32> %110, i32 %107, i64 1
  %112 = lshr <2 x i32> %111, splat (i32 31)
  %shuffle4 = shufflevector <2 x i32> %112, <2 x i32> poison, <4 x i32> <i32 0, i32 1, i32 0, i32 1>
  %113 = fcmp oeq float %11, 0xFFF0000000000000
  %114 = fcmp oeq float %11, 0x7FF0000000000000
  %115 = xor i1 %58, true
  %116 = zext i1 %115 to i32
  %117 = xor i32 %98, 1
  %118 = fcmp oeq float %0, 0xFFF0000000000000
  %119 = insertelement <2 x i1> poison, i1 %118, i64 0
  %120 = insertelement <2 x i1> %119, i1 %100, i64 1
  %121 = zext <2 x i1> %120 to <2 x i32>
  %shuffle5 = shufflevector <2 x i32> %121, <2 x i32> poison, <4 x i32> <i32 0, i32 0, i32 1, i32 1>
  %122 = fcmp oeq float %0, 0x7FF0000000000000
  %123 = zext i1 %122 to i32
  %124 = and i32 %2, -2147483648
  %125 = or i32 %124, 2139095040
  %126 = bitcast i32 %125 to float
  %127 = bitcast i32 %124 to float
  %128 = and i32 %109, %116
  %129 = icmp eq i32 %128, 0
  %130 = select i1 %129, float %99, float 0x7FF8000000000000
  %131 = and i1 %102, %113
  %132 = select i1 %131, float 0x7FF0000000000000, float %130
  %133 = and i1 %103, %113
  %134 = and i1 %102, %114
  %135 = or i1 %134, %133
  %136 = select i1 %135, float 0.000000e+00, float %132
  %137 = and i1 %103, %114
  %138 = select i1 %137, float 0x7FF0000000000000, float %136
  %139 = and <4 x i32> %shuffle4, %shuffle5
  %shuffle6 = shufflevector <4 x i32> %139, <4 x i32> poison, <8 x i32> <i32 0, i32 0, i32 1, i32 1, i32 2, i32 2, i32 3, i32 3>
  %140 = insertelement <8 x i32> poison, i32 %117, i64 0
  %141 = insertelement <8 x i32> %140, i32 %98, i64 1
  %shuffle3 = shufflevector <8 x i32> %141, <8 x i32> poison, <8 x i32> <i32 0, i32 1, i32 0, i32 1, i32 0, i32 1, i32 0, i32 1>
  %142 = and <8 x i32> %shuffle3, %shuffle6
  %143 = icmp eq <8 x i32> %142, zeroinitializer
  %144 = extractelement <8 x i1> %143, i64 7
  %145 = select i1 %144, float %138, float %126
  %146 = extractelement <8 x i1> %143, i64 6
  %147 = select i1 %146, float %145, float 0x7FF0000000000000
  %148 = extractelement <8 x i1> %143, i64 5
  %149 = select i1 %148, float %147, float %127
  %150 = extractelement <8 x i1> %143, i64 4
  %151 = select i1 %150, float %149, float 0.000000e+00
  %152 = and i1 %100, %113
  %153 = select i1 %152, float 0x7FF0000000000000, float %151
  %154 = fcmp oeq float %0, -1.000000e+00
  %155 = and i1 %154, %106
  %156 = select i1 %155, float 1.000000e+00, float %153
  %157 = extractelement <8 x i1> %143, i64 3
  %158 = select i1 %157, float %156, float -0.000000e+00
  %159 = extractelement <8 x i1> %143, i64 2
  %160 = select i1 %159, float %158, float 0.000000e+00
  %161 = extractelement <8 x i1> %143, i64 1
  %162 = select i1 %161, float %160, float 0xFFF0000000000000
  %163 = extractelement <8 x i1> %143, i64 0
  %164 = select i1 %163, float %162, float 0x7FF0000000000000
  %165 = extractelement <2 x i32> %112, i64 1
  %166 = and i32 %165, %123
  %167 = icmp eq i32 %166, 0
  %168 = select i1 %167, float %164, float 0.000000e+00
  %169 = extractelement <2 x i32> %112, i64 0
  %170 = and i32 %169, %123
  %171 = icmp eq i32 %170, 0
  %172 = select i1 %171, float %168, float 0x7FF0000000000000
  %173 = select i1 %104, float %172, float %0
  %174 = select i1 %105, float %173, float %11
  %175 = fcmp oeq float %0, 1.000000e+00
  %176 = or i1 %175, %101
  %177 = select i1 %176, float 1.000000e+00, float %174
  ret float %177
}

define float @_Z7_cl_sinf(float noundef %0) local_unnamed_addr {
  %2 = alloca float, align 4
  %3 = alloca float, align 4
  %4 = bitcast float %0 to i32
  %5 = and i32 %4, 2147483647
  %6 = bitcast i32 %5 to float
  %7 = bitcast ptr %2 to ptr
  call void @llvm.lifetime.start.p0(ptr %2)
  %8 = bitcast ptr %3 to ptr
  call void @llvm.lifetime.start.p0(ptr %3)
  %9 = call i32 @_Z20__pocl_argReductionSPU9CLprivatefS0_f(ptr noundef nonnull %2, ptr noundef nonnull %3, float noundef %6)
  %10 = load float, ptr %2, align 4
  %11 = load float, ptr %3, align 4
  %12 = fmul float %10, %10
  %13 = fmul float %10, %12
  %14 = tail call float @llvm.fma.f32(float %12, float 0x3DE5D93A60000000, float 0xBE5AE5E680000000)
  %15 = tail call float @llvm.fma.f32(float %12, float %14, float 0x3EC6DBE4A0000000)
  %16 = tail call float @llvm.fma.f32(float %12, float %15, float 0xBF2A013A80000000)
  %17 = tail call float @llvm.fma.f32(float %12, float %16, float 0x3F811110E0000000)
  %18 = fneg float %13
  %19 = fmul float %17, %18
  %20 = tail call float @llvm.fma.f32(float %11, float 5.000000e-01, float %19)
  %21 = fneg float %11
  %22 = tail call float @llvm.fma.f32(float %12, float %20, float %21)
  %23 = tail call float @llvm.fma.f32(float %13, float 0x3FC5555560000000, float %22)
  %24 = fsub float %10, %23
  %25 = tail call float @llvm.fma.f32(float %12, float 0xBDA8FAE9C0000000, float 0x3E21EE9EC0000000)
  %26 = tail call float @llvm.fma.f32(float %12, float %25, float 0xBE92524740000000)
  %27 = tail call float @llvm.fma.f32(float %12, float %26, float 0x3EFA015C40000000)
  %28 = tail call float @llvm.fma.f32(float %12, float %27, float 0xBF56C16C00000000)
  %29 = tail call float @llvm.fma.f32(float %12, float %28, float 0x3FA5555560000000)
  %30 = fmul float %12, %29
  %31 = bitcast float %10 to i32
  %32 = and i32 %31, 2147483647
  %33 = add nsw i32 %32, -16777216
  %34 = bitcast i32 %33 to float
  %35 = add nsw i32 %32, -1050253722
  %36 = icmp ult i32 %35, 11429479
  %37 = select i1 %36, float %34, float 0.000000e+00
  %38 = icmp ugt i32 %32, 1061683200
  %39 = select i1 %38, float 2.812500e-01, float %37
  %40 = fneg float %39
  %41 = tail call float @llvm.fma.f32(float %12, float 5.000000e-01, float %40)
  %42 = fsub float 1.000000e+00, %39
  %43 = fneg float %10
  %44 = fmul float %11, %43
  %45 = tail call float @llvm.fma.f32(float %12, float %30, float %44)
  %46 = fsub float %41, %45
  %47 = fsub float %42, %46
  %48 = and i32 %9, 1
  %49 = icmp eq i32 %48, 0
  %50 = select i1 %49, float %24, float %47
  %51 = icmp sgt i32 %9, 1
  %52 = select i1 %51, i32 -2147483648, i32 0
  %53 = bitcast float %50 to i32
  %54 = and i32 %4, -2147483648
  %55 = xor i32 %52, %54
  %56 = xor i32 %55, %53
  %57 = bitcast i32 %56 to float
  %58 = icmp ugt i32 %5, 2139095039
  %59 = select i1 %58, float 0x7FF8000000000000, float %57
  %60 = fcmp oeq float %0, 0.000000e+00
  %61 = select i1 %60, float %0, float %59
  call void @llvm.lifetime.end.p0(ptr %3)
  call void @llvm.lifetime.end.p0(ptr %2)
  ret float %61
}

define void @_Z7barrierj(i32 %flags) local_unnamed_addr {
entry:
  tail call void @pocl.barrier()
  ret void
}

define float @_Z8_cl_fabsf(float noundef %0) local_unnamed_addr {
  %2 = bitcast float %0 to i32
  %3 = and i32 %2, 2147483647
  %4 = bitcast i32 %3 to float
  ret float %4
}

define float @_Z8_cl_sqrtf(float noundef %0) local_unnamed_addr {
  %2 = tail call float @llvm.sqrt.f32(float %0)
  ret float %2
}

define i32 @_Z9_cl_clampiii(i32 noundef %0, i32 noundef %1, i32 noundef %2) local_unnamed_addr {
  %4 = icmp slt i32 %0, %1
  %5 = select i1 %4, i32 %1, i32 %0
  %6 = icmp sgt i32 %5, %2
  %7 = select i1 %6, i32 %2, i32 %5
  ret i32 %7
}

define float @_Z9_cl_rsqrtf(float noundef %0) local_unnamed_addr {
  %2 = tail call float @llvm.sqrt.f32(float %0)
  %3 = fdiv float 1.000000e+00, %2, !fpmath !59
  ret float %3
}

define void @__pocl_print_floats_double(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2) local_unnamed_addr {
  %4 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %5 = load i8, ptr %4, align 4, !tbaa.struct !129
  %6 = icmp sgt i32 %2, 0
  br i1 %6, label %7, label %.loopexit

7:
  %8 = bitcast ptr %1 to ptr
  %9 = zext i32 %2 to i64
  %10 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %11 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %12 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  br label %14

.loopexit:
  ret void

14:
  %15 = phi i64 [ 0, %7 ], [ %70, %69 ]
  store i8 %5, ptr %4, align 4, !tbaa.struct !129
  %16 = icmp eq i64 %15, 0
  br i1 %16, label %__pocl_printf_putcf.exit, label %17

17:
  %18 = load i32, ptr %10, align 8
  %19 = load i32, ptr %11, align 4
  %20 = icmp ult i32 %18, %19
  br i1 %20, label %21, label %__pocl_printf_putcf.exit

21:
  %22 = load ptr, ptr %12, align 8
  %23 = add nuw i32 %18, 1
  store i32 %23, ptr %10, align 8
  %24 = zext i32 %18 to i64
  %25 = getelementptr inbounds i8, ptr %22, i64 %24
  store i8 44, ptr %25, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %26 = getelementptr inbounds double, ptr %8, i64 %15
  %27 = load double, ptr %26, align 8
  %28 = fcmp uno double %27, 0.000000e+00
  br i1 %28, label %29, label %36

29:
  %30 = load i8, ptr %4, align 4
  %31 = lshr i8 %30, 3
  %32 = and i8 %31, 1
  %33 = zext i8 %32 to i64
  %34 = getelementptr inbounds [2 x ptr], ptr @__const.__pocl_print_floats_double.NANs, i64 0, i64 %33
  %35 = load ptr, ptr %34, align 8
  br label %36

36:
  %37 = phi ptr [ %35, %29 ], [ null, %__pocl_printf_putcf.exit ]
  %38 = fcmp oeq double %27, 0xFFF0000000000000
  br i1 %38, label %.thread, label %41

.thread:
  %39 = load i8, ptr %4, align 4
  %40 = or i8 %39, 32
  store i8 %40, ptr %4, align 4
  br label %43

41:
  %42 = fcmp oeq double %27, 0x7FF0000000000000
  br i1 %42, label %._crit_edge, label %50

._crit_edge:
  %.pre = load i8, ptr %4, align 4
  br label %43

43:
  %44 = phi i8 [ %.pre, %._crit_edge ], [ %40, %.thread ]
  %45 = lshr i8 %44, 3
  %46 = and i8 %45, 1
  %47 = zext i8 %46 to i64
  %48 = getelementptr inbounds [2 x ptr], ptr @__const.__pocl_print_floats_double.INFs, i64 0, i64 %47
  %49 = load ptr, ptr %48, align 8
  br label %50

50:
  %51 = phi double [ 0x7FF0000000000000, %43 ], [ %27, %41 ]
  %52 = phi ptr [ %49, %43 ], [ %37, %41 ]
  %53 = icmp eq ptr %52, null
  br i1 %53, label %68, label %54

54:
  %55 = load ptr, ptr %13, align 8
  %56 = load i8, ptr %52, align 1
  %57 = icmp eq i8 %56, 0
  br i1 %57, label %__pocl_printf_nonfinite.exit, label %.preheader.i

.preheader.i:
  %58 = phi i8 [ %63, %.preheader.i ], [ %56, %54 ]
  %59 = phi ptr [ %62, %.preheader.i ], [ %55, %54 ]
  %60 = phi ptr [ %61, %.preheader.i ], [ %52, %54 ]
  %61 = getelementptr inbounds i8, ptr %60, i64 1
  %62 = getelementptr inbounds i8, ptr %59, i64 1
  store i8 %58, ptr %59, align 1
  %63 = load i8, ptr %61, align 1
  %64 = icmp eq i8 %63, 0
  br i1 %64, label %__pocl_printf_nonfinite.exit, label %.preheader.i

__pocl_printf_nonfinite.exit:
  %65 = phi ptr [ %55, %54 ], [ %62, %.preheader.i ]
  store i8 0, ptr %65, align 1
  %66 = load i8, ptr %4, align 4
  %67 = and i8 %66, -2
  store i8 %67, ptr %4, align 4
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  br label %69

68:
  tail call void @__pocl_printf_float_libc(ptr noundef nonnull %0, double noundef %51)
  br label %69

69:
  %70 = add nuw nsw i64 %15, 1
  %71 = icmp eq i64 %70, %9
  br i1 %71, label %.loopexit, label %14
}

define void @__pocl_print_floats_float(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2) local_unnamed_addr {
  %4 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %5 = load i8, ptr %4, align 4, !tbaa.struct !129
  %6 = icmp sgt i32 %2, 0
  br i1 %6, label %7, label %.loopexit

7:
  %8 = bitcast ptr %1 to ptr
  %9 = zext i32 %2 to i64
  %10 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %11 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %12 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  br label %14

.loopexit:
  ret void

14:
  %15 = phi i64 [ 0, %7 ], [ %72, %71 ]
  store i8 %5, ptr %4, align 4, !tbaa.struct !129
  %16 = icmp eq i64 %15, 0
  br i1 %16, label %__pocl_printf_putcf.exit, label %17

17:
  %18 = load i32, ptr %10, align 8
  %19 = load i32, ptr %11, align 4
  %20 = icmp ult i32 %18, %19
  br i1 %20, label %21, label %__pocl_printf_putcf.exit

21:
  %22 = load ptr, ptr %12, align 8
  %23 = add nuw i32 %18, 1
  store i32 %23, ptr %10, align 8
  %24 = zext i32 %18 to i64
  %25 = getelementptr inbounds i8, ptr %22, i64 %24
  store i8 44, ptr %25, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %26 = getelementptr inbounds float, ptr %8, i64 %15
  %27 = load float, ptr %26, align 4
  %28 = fpext float %27 to double
  %29 = fcmp uno float %27, 0.000000e+00
  br i1 %29, label %30, label %37

30:
  %31 = load i8, ptr %4, align 4
  %32 = lshr i8 %31, 3
  %33 = and i8 %32, 1
  %34 = zext i8 %33 to i64
  %35 = getelementptr inbounds [2 x ptr], ptr @__const.__pocl_print_floats_double.NANs, i64 0, i64 %34
  %36 = load ptr, ptr %35, align 8
  br label %37

37:
  %38 = phi ptr [ %36, %30 ], [ null, %__pocl_printf_putcf.exit ]
  %39 = fcmp oeq float %27, 0xFFF0000000000000
  br i1 %39, label %.thread, label %42

.thread:
  %40 = load i8, ptr %4, align 4
  %41 = or i8 %40, 32
  store i8 %41, ptr %4, align 4
  br label %44

42:
  %43 = fcmp oeq float %27, 0x7FF0000000000000
  br i1 %43, label %._crit_edge, label %52

._crit_edge:
  %.pre = load i8, ptr %4, align 4
  br label %44

44:
  %45 = phi i8 [ %41, %.thread ], [ %.pre, %._crit_edge ]
  %46 = phi double [ 0x7FF0000000000000, %.thread ], [ %28, %._crit_edge ]
  %47 = lshr i8 %45, 3
  %48 = and i8 %47, 1
  %49 = zext i8 %48 to i64
  %50 = getelementptr inbounds [2 x ptr], ptr @__const.__pocl_print_floats_double.INFs, i64 0, i64 %49
  %51 = load ptr, ptr %50, align 8
  br label %52

52:
  %53 = phi double [ %46, %44 ], [ %28, %42 ]
  %54 = phi ptr [ %51, %44 ], [ %38, %42 ]
  %55 = icmp eq ptr %54, null
  br i1 %55, label %70, label %56

56:
  %57 = load ptr, ptr %13, align 8
  %58 = load i8, ptr %54, align 1
  %59 = icmp eq i8 %58, 0
  br i1 %59, label %__pocl_printf_nonfinite.exit, label %.preheader.i

.preheader.i:
  %60 = phi i8 [ %65, %.preheader.i ], [ %58, %56 ]
  %61 = phi ptr [ %64, %.preheader.i ], [ %57, %56 ]
  %62 = phi ptr [ %63, %.preheader.i ], [ %54, %56 ]
  %63 = getelementptr inbounds i8, ptr %62, i64 1
  %64 = getelementptr inbounds i8, ptr %61, i64 1
  store i8 %60, ptr %61, align 1
  %65 = load i8, ptr %63, align 1
  %66 = icmp eq i8 %65, 0
  br i1 %66, label %__pocl_printf_nonfinite.exit, label %.preheader.i

__pocl_printf_nonfinite.exit:
  %67 = phi ptr [ %57, %56 ], [ %64, %.preheader.i ]
  store i8 0, ptr %67, align 1
  %68 = load i8, ptr %4, align 4
  %69 = and i8 %68, -2
  store i8 %69, ptr %4, align 4
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  br label %71

70:
  tail call void @__pocl_printf_float_libc(ptr noundef nonnull %0, double noundef %53)
  br label %71

71:
  %72 = add nuw nsw i64 %15, 1
  %73 = icmp eq i64 %72, %9
  br i1 %73, label %.loopexit, label %14
}

define void @__pocl_print_ints_uchar(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2, i32 noundef %3) local_unnamed_addr {
  %5 = alloca [64 x i8], align 16
  %6 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %7 = load i8, ptr %6, align 4, !tbaa.struct !129
  %8 = icmp eq i32 %2, 0
  br i1 %8, label %.loopexit, label %9

9:
  %10 = icmp eq i32 %3, 0
  %11 = sext i32 %2 to i64
  %12 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %14 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %15 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 0
  %16 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %17 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %18 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  br i1 %10, label %.split.us, label %.split

.split.us:
  %19 = phi i64 [ %94, %__pocl_printf_long.exit.us ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %20 = icmp eq i64 %19, 0
  br i1 %20, label %__pocl_printf_putcf.exit.us, label %21

21:
  %22 = load i32, ptr %12, align 8
  %23 = load i32, ptr %13, align 4
  %24 = icmp ult i32 %22, %23
  br i1 %24, label %25, label %__pocl_printf_putcf.exit.us

25:
  %26 = load ptr, ptr %14, align 8
  %27 = add nuw i32 %22, 1
  store i32 %27, ptr %12, align 8
  %28 = zext i32 %22 to i64
  %29 = getelementptr inbounds i8, ptr %26, i64 %28
  store i8 44, ptr %29, align 1
  br label %__pocl_printf_putcf.exit.us

__pocl_printf_putcf.exit.us:
  %30 = getelementptr inbounds i8, ptr %1, i64 %19
  %31 = load i8, ptr %30, align 1
  %32 = sext i8 %31 to i64
  %33 = icmp slt i8 %31, 0
  br i1 %33, label %.thread.i.us, label %34

34:
  %35 = load i8, ptr %6, align 4
  %36 = and i8 %35, -33
  store i8 %36, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  %37 = icmp eq i8 %31, 0
  br i1 %37, label %.loopexit6.thread.i.us, label %44

.loopexit6.thread.i.us:
  %38 = load i32, ptr %16, align 8
  %39 = icmp sgt i32 %38, 0
  br i1 %39, label %.thread5.i.us, label %.thread9.i.us

.thread9.i.us:
  %40 = load ptr, ptr %17, align 8
  br label %__pocl_printf_long.exit.us

.thread.i.us:
  %41 = sub nsw i64 0, %32
  %42 = load i8, ptr %6, align 4
  %43 = or i8 %42, 32
  store i8 %43, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  br label %44

44:
  %45 = phi i64 [ %41, %.thread.i.us ], [ %32, %34 ]
  %46 = load i32, ptr %18, align 8
  %47 = zext i32 %46 to i64
  br label %48

48:
  %49 = phi i64 [ %45, %44 ], [ %53, %48 ]
  %50 = phi i32 [ 0, %44 ], [ %55, %48 ]
  %51 = urem i64 %49, %47
  %52 = trunc i64 %51 to i8
  %53 = udiv i64 %49, %47
  %54 = add i8 %52, 48
  %55 = add i32 %50, 1
  %56 = zext i32 %50 to i64
  %57 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %56
  store i8 %54, ptr %57, align 1
  %58 = icmp ult i64 %49, %47
  br i1 %58, label %.loopexit6.i.us, label %48

.loopexit6.i.us:
  %59 = load i32, ptr %16, align 8
  %60 = icmp sgt i32 %59, 0
  %61 = icmp ult i32 %55, %59
  %62 = select i1 %60, i1 %61, i1 false
  br i1 %62, label %.thread5.i.us, label %63

63:
  %64 = load ptr, ptr %17, align 8
  %65 = icmp eq i32 %55, 0
  br i1 %65, label %__pocl_printf_long.exit.us, label %75

.thread5.i.us:
  %66 = phi i32 [ %38, %.loopexit6.thread.i.us ], [ %59, %.loopexit6.i.us ]
  %67 = phi i32 [ 0, %.loopexit6.thread.i.us ], [ %55, %.loopexit6.i.us ]
  %68 = zext i32 %67 to i64
  %69 = getelementptr [64 x i8], ptr %5, i64 0, i64 %68
  %70 = xor i32 %67, -1
  %71 = add i32 %66, %70
  %72 = zext i32 %71 to i64
  %73 = add nuw nsw i64 %72, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %69, i8 48, i64 %73, i1 false) #37
  %74 = load ptr, ptr %17, align 8
  br label %75

75:
  %76 = phi ptr [ %74, %.thread5.i.us ], [ %64, %63 ]
  %77 = phi i32 [ %66, %.thread5.i.us ], [ %55, %63 ]
  %78 = zext i32 %77 to i64
  %min.iters.check = icmp ult i32 %77, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %78, 4294967264
  %ind.end = and i64 %78, 31
  %ind.end10 = getelementptr i8, ptr %76, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %76, i64 %index
  %79 = xor i64 %index, -1
  %80 = add i64 %79, %78
  %81 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %80
  %82 = getelementptr inbounds i8, ptr %81, i64 -31
  %83 = bitcast ptr %82 to ptr
  %wide.load = load <32 x i8>, ptr %83, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %84 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %84, align 1
  %index.next = add nuw i64 %index, 32
  %85 = icmp eq i64 %index.next, %n.vec
  br i1 %85, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %78
  br i1 %cmp.n, label %__pocl_printf_long.exit.us, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph = phi i64 [ %78, %75 ], [ %ind.end, %middle.block ]
  %.ph11 = phi ptr [ %76, %75 ], [ %ind.end10, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %86 = phi i64 [ %88, %scalar.ph ], [ %.ph, %scalar.ph.preheader ]
  %87 = phi ptr [ %91, %scalar.ph ], [ %.ph11, %scalar.ph.preheader ]
  %88 = add nsw i64 %86, -1
  %89 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %88
  %90 = load i8, ptr %89, align 1
  %91 = getelementptr inbounds i8, ptr %87, i64 1
  store i8 %90, ptr %87, align 1
  %92 = icmp eq i64 %88, 0
  br i1 %92, label %__pocl_printf_long.exit.us, label %scalar.ph

__pocl_printf_long.exit.us:
  %93 = phi ptr [ %64, %63 ], [ %40, %.thread9.i.us ], [ %ind.end10, %middle.block ], [ %91, %scalar.ph ]
  store i8 0, ptr %93, align 1
  call void @llvm.lifetime.end.p0(ptr %5)
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  %94 = add nuw i64 %19, 1
  %95 = icmp eq i64 %94, %11
  br i1 %95, label %.loopexit, label %.split.us

.loopexit:
  ret void

.split:
  %96 = phi i64 [ %110, %__pocl_printf_putcf.exit ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %97 = icmp eq i64 %96, 0
  br i1 %97, label %__pocl_printf_putcf.exit, label %98

98:
  %99 = load i32, ptr %12, align 8
  %100 = load i32, ptr %13, align 4
  %101 = icmp ult i32 %99, %100
  br i1 %101, label %102, label %__pocl_printf_putcf.exit

102:
  %103 = load ptr, ptr %14, align 8
  %104 = add nuw i32 %99, 1
  store i32 %104, ptr %12, align 8
  %105 = zext i32 %99 to i64
  %106 = getelementptr inbounds i8, ptr %103, i64 %105
  store i8 44, ptr %106, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %107 = getelementptr inbounds i8, ptr %1, i64 %96
  %108 = load i8, ptr %107, align 1
  %109 = zext i8 %108 to i64
  tail call void @__pocl_printf_ulong(ptr noundef nonnull %0, i64 noundef %109)
  %110 = add nuw i64 %96, 1
  %111 = icmp eq i64 %110, %11
  br i1 %111, label %.loopexit, label %.split
}

define void @__pocl_print_ints_uint(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2, i32 noundef %3) local_unnamed_addr {
  %5 = alloca [64 x i8], align 16
  %6 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %7 = load i8, ptr %6, align 4, !tbaa.struct !129
  %8 = icmp eq i32 %2, 0
  br i1 %8, label %.loopexit, label %9

9:
  %10 = icmp eq i32 %3, 0
  %11 = bitcast ptr %1 to ptr
  %12 = sext i32 %2 to i64
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %14 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %15 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %16 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 0
  %17 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %18 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %19 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  br i1 %10, label %.split.us, label %.split

.split.us:
  %20 = phi i64 [ %95, %__pocl_printf_long.exit.us ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %21 = icmp eq i64 %20, 0
  br i1 %21, label %__pocl_printf_putcf.exit.us, label %22

22:
  %23 = load i32, ptr %13, align 8
  %24 = load i32, ptr %14, align 4
  %25 = icmp ult i32 %23, %24
  br i1 %25, label %26, label %__pocl_printf_putcf.exit.us

26:
  %27 = load ptr, ptr %15, align 8
  %28 = add nuw i32 %23, 1
  store i32 %28, ptr %13, align 8
  %29 = zext i32 %23 to i64
  %30 = getelementptr inbounds i8, ptr %27, i64 %29
  store i8 44, ptr %30, align 1
  br label %__pocl_printf_putcf.exit.us

__pocl_printf_putcf.exit.us:
  %31 = getelementptr inbounds i32, ptr %11, i64 %20
  %32 = load i32, ptr %31, align 4
  %33 = sext i32 %32 to i64
  %34 = icmp slt i32 %32, 0
  br i1 %34, label %.thread.i.us, label %35

35:
  %36 = load i8, ptr %6, align 4
  %37 = and i8 %36, -33
  store i8 %37, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  %38 = icmp eq i32 %32, 0
  br i1 %38, label %.loopexit6.thread.i.us, label %45

.loopexit6.thread.i.us:
  %39 = load i32, ptr %17, align 8
  %40 = icmp sgt i32 %39, 0
  br i1 %40, label %.thread5.i.us, label %.thread9.i.us

.thread9.i.us:
  %41 = load ptr, ptr %18, align 8
  br label %__pocl_printf_long.exit.us

.thread.i.us:
  %42 = sub nsw i64 0, %33
  %43 = load i8, ptr %6, align 4
  %44 = or i8 %43, 32
  store i8 %44, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  br label %45

45:
  %46 = phi i64 [ %42, %.thread.i.us ], [ %33, %35 ]
  %47 = load i32, ptr %19, align 8
  %48 = zext i32 %47 to i64
  br label %49

49:
  %50 = phi i64 [ %46, %45 ], [ %54, %49 ]
  %51 = phi i32 [ 0, %45 ], [ %56, %49 ]
  %52 = urem i64 %50, %48
  %53 = trunc i64 %52 to i8
  %54 = udiv i64 %50, %48
  %55 = add i8 %53, 48
  %56 = add i32 %51, 1
  %57 = zext i32 %51 to i64
  %58 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %57
  store i8 %55, ptr %58, align 1
  %59 = icmp ult i64 %50, %48
  br i1 %59, label %.loopexit6.i.us, label %49

.loopexit6.i.us:
  %60 = load i32, ptr %17, align 8
  %61 = icmp sgt i32 %60, 0
  %62 = icmp ult i32 %56, %60
  %63 = select i1 %61, i1 %62, i1 false
  br i1 %63, label %.thread5.i.us, label %64

64:
  %65 = load ptr, ptr %18, align 8
  %66 = icmp eq i32 %56, 0
  br i1 %66, label %__pocl_printf_long.exit.us, label %76

.thread5.i.us:
  %67 = phi i32 [ %39, %.loopexit6.thread.i.us ], [ %60, %.loopexit6.i.us ]
  %68 = phi i32 [ 0, %.loopexit6.thread.i.us ], [ %56, %.loopexit6.i.us ]
  %69 = zext i32 %68 to i64
  %70 = getelementptr [64 x i8], ptr %5, i64 0, i64 %69
  %71 = xor i32 %68, -1
  %72 = add i32 %67, %71
  %73 = zext i32 %72 to i64
  %74 = add nuw nsw i64 %73, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %70, i8 48, i64 %74, i1 false) #37
  %75 = load ptr, ptr %18, align 8
  br label %76

76:
  %77 = phi ptr [ %75, %.thread5.i.us ], [ %65, %64 ]
  %78 = phi i32 [ %67, %.thread5.i.us ], [ %56, %64 ]
  %79 = zext i32 %78 to i64
  %min.iters.check = icmp ult i32 %78, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %79, 4294967264
  %ind.end = and i64 %79, 31
  %ind.end10 = getelementptr i8, ptr %77, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %77, i64 %index
  %80 = xor i64 %index, -1
  %81 = add i64 %80, %79
  %82 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %81
  %83 = getelementptr inbounds i8, ptr %82, i64 -31
  %84 = bitcast ptr %83 to ptr
  %wide.load = load <32 x i8>, ptr %84, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %85 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %85, align 1
  %index.next = add nuw i64 %index, 32
  %86 = icmp eq i64 %index.next, %n.vec
  br i1 %86, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %79
  br i1 %cmp.n, label %__pocl_printf_long.exit.us, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph = phi i64 [ %79, %76 ], [ %ind.end, %middle.block ]
  %.ph11 = phi ptr [ %77, %76 ], [ %ind.end10, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %87 = phi i64 [ %89, %scalar.ph ], [ %.ph, %scalar.ph.preheader ]
  %88 = phi ptr [ %92, %scalar.ph ], [ %.ph11, %scalar.ph.preheader ]
  %89 = add nsw i64 %87, -1
  %90 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %89
  %91 = load i8, ptr %90, align 1
  %92 = getelementptr inbounds i8, ptr %88, i64 1
  store i8 %91, ptr %88, align 1
  %93 = icmp eq i64 %89, 0
  br i1 %93, label %__pocl_printf_long.exit.us, label %scalar.ph

__pocl_printf_long.exit.us:
  %94 = phi ptr [ %65, %64 ], [ %41, %.thread9.i.us ], [ %ind.end10, %middle.block ], [ %92, %scalar.ph ]
  store i8 0, ptr %94, align 1
  call void @llvm.lifetime.end.p0(ptr %5)
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  %95 = add nuw i64 %20, 1
  %96 = icmp eq i64 %95, %12
  br i1 %96, label %.loopexit, label %.split.us

.loopexit:
  ret void

.split:
  %97 = phi i64 [ %111, %__pocl_printf_putcf.exit ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %98 = icmp eq i64 %97, 0
  br i1 %98, label %__pocl_printf_putcf.exit, label %99

99:
  %100 = load i32, ptr %13, align 8
  %101 = load i32, ptr %14, align 4
  %102 = icmp ult i32 %100, %101
  br i1 %102, label %103, label %__pocl_printf_putcf.exit

103:
  %104 = load ptr, ptr %15, align 8
  %105 = add nuw i32 %100, 1
  store i32 %105, ptr %13, align 8
  %106 = zext i32 %100 to i64
  %107 = getelementptr inbounds i8, ptr %104, i64 %106
  store i8 44, ptr %107, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %108 = getelementptr inbounds i32, ptr %11, i64 %97
  %109 = load i32, ptr %108, align 4
  %110 = zext i32 %109 to i64
  tail call void @__pocl_printf_ulong(ptr noundef nonnull %0, i64 noundef %110)
  %111 = add nuw i64 %97, 1
  %112 = icmp eq i64 %111, %12
  br i1 %112, label %.loopexit, label %.split
}

define void @__pocl_print_ints_ulong(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2, i32 noundef %3) local_unnamed_addr {
  %5 = alloca [64 x i8], align 16
  %6 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %7 = load i8, ptr %6, align 4, !tbaa.struct !129
  %8 = icmp eq i32 %2, 0
  br i1 %8, label %.loopexit, label %9

9:
  %10 = icmp eq i32 %3, 0
  %11 = bitcast ptr %1 to ptr
  %12 = sext i32 %2 to i64
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %14 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %15 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %16 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 0
  %17 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %18 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %19 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  br i1 %10, label %.split.us, label %.split

.split.us:
  %20 = phi i64 [ %94, %__pocl_printf_long.exit.us ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %21 = icmp eq i64 %20, 0
  br i1 %21, label %__pocl_printf_putcf.exit.us, label %22

22:
  %23 = load i32, ptr %13, align 8
  %24 = load i32, ptr %14, align 4
  %25 = icmp ult i32 %23, %24
  br i1 %25, label %26, label %__pocl_printf_putcf.exit.us

26:
  %27 = load ptr, ptr %15, align 8
  %28 = add nuw i32 %23, 1
  store i32 %28, ptr %13, align 8
  %29 = zext i32 %23 to i64
  %30 = getelementptr inbounds i8, ptr %27, i64 %29
  store i8 44, ptr %30, align 1
  br label %__pocl_printf_putcf.exit.us

__pocl_printf_putcf.exit.us:
  %31 = getelementptr inbounds i64, ptr %11, i64 %20
  %32 = load i64, ptr %31, align 8
  %33 = icmp slt i64 %32, 0
  br i1 %33, label %.thread.i.us, label %34

34:
  %35 = load i8, ptr %6, align 4
  %36 = and i8 %35, -33
  store i8 %36, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  %37 = icmp eq i64 %32, 0
  br i1 %37, label %.loopexit6.thread.i.us, label %44

.loopexit6.thread.i.us:
  %38 = load i32, ptr %17, align 8
  %39 = icmp sgt i32 %38, 0
  br i1 %39, label %.thread5.i.us, label %.thread9.i.us

.thread9.i.us:
  %40 = load ptr, ptr %18, align 8
  br label %__pocl_printf_long.exit.us

.thread.i.us:
  %41 = sub i64 0, %32
  %42 = load i8, ptr %6, align 4
  %43 = or i8 %42, 32
  store i8 %43, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  br label %44

44:
  %45 = phi i64 [ %41, %.thread.i.us ], [ %32, %34 ]
  %46 = load i32, ptr %19, align 8
  %47 = zext i32 %46 to i64
  br label %48

48:
  %49 = phi i64 [ %45, %44 ], [ %53, %48 ]
  %50 = phi i32 [ 0, %44 ], [ %55, %48 ]
  %51 = urem i64 %49, %47
  %52 = trunc i64 %51 to i8
  %53 = udiv i64 %49, %47
  %54 = add i8 %52, 48
  %55 = add i32 %50, 1
  %56 = zext i32 %50 to i64
  %57 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %56
  store i8 %54, ptr %57, align 1
  %58 = icmp ult i64 %49, %47
  br i1 %58, label %.loopexit6.i.us, label %48

.loopexit6.i.us:
  %59 = load i32, ptr %17, align 8
  %60 = icmp sgt i32 %59, 0
  %61 = icmp ult i32 %55, %59
  %62 = select i1 %60, i1 %61, i1 false
  br i1 %62, label %.thread5.i.us, label %63

63:
  %64 = load ptr, ptr %18, align 8
  %65 = icmp eq i32 %55, 0
  br i1 %65, label %__pocl_printf_long.exit.us, label %75

.thread5.i.us:
  %66 = phi i32 [ %38, %.loopexit6.thread.i.us ], [ %59, %.loopexit6.i.us ]
  %67 = phi i32 [ 0, %.loopexit6.thread.i.us ], [ %55, %.loopexit6.i.us ]
  %68 = zext i32 %67 to i64
  %69 = getelementptr [64 x i8], ptr %5, i64 0, i64 %68
  %70 = xor i32 %67, -1
  %71 = add i32 %66, %70
  %72 = zext i32 %71 to i64
  %73 = add nuw nsw i64 %72, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %69, i8 48, i64 %73, i1 false) #37
  %74 = load ptr, ptr %18, align 8
  br label %75

75:
  %76 = phi ptr [ %74, %.thread5.i.us ], [ %64, %63 ]
  %77 = phi i32 [ %66, %.thread5.i.us ], [ %55, %63 ]
  %78 = zext i32 %77 to i64
  %min.iters.check = icmp ult i32 %77, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %78, 4294967264
  %ind.end = and i64 %78, 31
  %ind.end10 = getelementptr i8, ptr %76, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %76, i64 %index
  %79 = xor i64 %index, -1
  %80 = add i64 %79, %78
  %81 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %80
  %82 = getelementptr inbounds i8, ptr %81, i64 -31
  %83 = bitcast ptr %82 to ptr
  %wide.load = load <32 x i8>, ptr %83, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %84 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %84, align 1
  %index.next = add nuw i64 %index, 32
  %85 = icmp eq i64 %index.next, %n.vec
  br i1 %85, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %78
  br i1 %cmp.n, label %__pocl_printf_long.exit.us, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph = phi i64 [ %78, %75 ], [ %ind.end, %middle.block ]
  %.ph11 = phi ptr [ %76, %75 ], [ %ind.end10, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %86 = phi i64 [ %88, %scalar.ph ], [ %.ph, %scalar.ph.preheader ]
  %87 = phi ptr [ %91, %scalar.ph ], [ %.ph11, %scalar.ph.preheader ]
  %88 = add nsw i64 %86, -1
  %89 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %88
  %90 = load i8, ptr %89, align 1
  %91 = getelementptr inbounds i8, ptr %87, i64 1
  store i8 %90, ptr %87, align 1
  %92 = icmp eq i64 %88, 0
  br i1 %92, label %__pocl_printf_long.exit.us, label %scalar.ph

__pocl_printf_long.exit.us:
  %93 = phi ptr [ %64, %63 ], [ %40, %.thread9.i.us ], [ %ind.end10, %middle.block ], [ %91, %scalar.ph ]
  store i8 0, ptr %93, align 1
  call void @llvm.lifetime.end.p0(ptr %5)
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  %94 = add nuw i64 %20, 1
  %95 = icmp eq i64 %94, %12
  br i1 %95, label %.loopexit, label %.split.us

.loopexit:
  ret void

.split:
  %96 = phi i64 [ %109, %__pocl_printf_putcf.exit ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %97 = icmp eq i64 %96, 0
  br i1 %97, label %__pocl_printf_putcf.exit, label %98

98:
  %99 = load i32, ptr %13, align 8
  %100 = load i32, ptr %14, align 4
  %101 = icmp ult i32 %99, %100
  br i1 %101, label %102, label %__pocl_printf_putcf.exit

102:
  %103 = load ptr, ptr %15, align 8
  %104 = add nuw i32 %99, 1
  store i32 %104, ptr %13, align 8
  %105 = zext i32 %99 to i64
  %106 = getelementptr inbounds i8, ptr %103, i64 %105
  store i8 44, ptr %106, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %107 = getelementptr inbounds i64, ptr %11, i64 %96
  %108 = load i64, ptr %107, align 8
  tail call void @__pocl_printf_ulong(ptr noundef nonnull %0, i64 noundef %108)
  %109 = add nuw i64 %96, 1
  %110 = icmp eq i64 %109, %12
  br i1 %110, label %.loopexit, label %.split
}

define void @__pocl_print_ints_ushort(ptr noundef %0, ptr noundef readonly captures(none) %1, i32 noundef %2, i32 noundef %3) local_unnamed_addr {
  %5 = alloca [64 x i8], align 16
  %6 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %7 = load i8, ptr %6, align 4, !tbaa.struct !129
  %8 = icmp eq i32 %2, 0
  br i1 %8, label %.loopexit, label %9

9:
  %10 = icmp eq i32 %3, 0
  %11 = bitcast ptr %1 to ptr
  %12 = sext i32 %2 to i64
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %14 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %15 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %16 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 0
  %17 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %18 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %19 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  br i1 %10, label %.split.us, label %.split

.split.us:
  %20 = phi i64 [ %95, %__pocl_printf_long.exit.us ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %21 = icmp eq i64 %20, 0
  br i1 %21, label %__pocl_printf_putcf.exit.us, label %22

22:
  %23 = load i32, ptr %13, align 8
  %24 = load i32, ptr %14, align 4
  %25 = icmp ult i32 %23, %24
  br i1 %25, label %26, label %__pocl_printf_putcf.exit.us

26:
  %27 = load ptr, ptr %15, align 8
  %28 = add nuw i32 %23, 1
  store i32 %28, ptr %13, align 8
  %29 = zext i32 %23 to i64
  %30 = getelementptr inbounds i8, ptr %27, i64 %29
  store i8 44, ptr %30, align 1
  br label %__pocl_printf_putcf.exit.us

__pocl_printf_putcf.exit.us:
  %31 = getelementptr inbounds i16, ptr %11, i64 %20
  %32 = load i16, ptr %31, align 2
  %33 = sext i16 %32 to i64
  %34 = icmp slt i16 %32, 0
  br i1 %34, label %.thread.i.us, label %35

35:
  %36 = load i8, ptr %6, align 4
  %37 = and i8 %36, -33
  store i8 %37, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  %38 = icmp eq i16 %32, 0
  br i1 %38, label %.loopexit6.thread.i.us, label %45

.loopexit6.thread.i.us:
  %39 = load i32, ptr %17, align 8
  %40 = icmp sgt i32 %39, 0
  br i1 %40, label %.thread5.i.us, label %.thread9.i.us

.thread9.i.us:
  %41 = load ptr, ptr %18, align 8
  br label %__pocl_printf_long.exit.us

.thread.i.us:
  %42 = sub nsw i64 0, %33
  %43 = load i8, ptr %6, align 4
  %44 = or i8 %43, 32
  store i8 %44, ptr %6, align 4
  call void @llvm.lifetime.start.p0(ptr %5)
  br label %45

45:
  %46 = phi i64 [ %42, %.thread.i.us ], [ %33, %35 ]
  %47 = load i32, ptr %19, align 8
  %48 = zext i32 %47 to i64
  br label %49

49:
  %50 = phi i64 [ %46, %45 ], [ %54, %49 ]
  %51 = phi i32 [ 0, %45 ], [ %56, %49 ]
  %52 = urem i64 %50, %48
  %53 = trunc i64 %52 to i8
  %54 = udiv i64 %50, %48
  %55 = add i8 %53, 48
  %56 = add i32 %51, 1
  %57 = zext i32 %51 to i64
  %58 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %57
  store i8 %55, ptr %58, align 1
  %59 = icmp ult i64 %50, %48
  br i1 %59, label %.loopexit6.i.us, label %49

.loopexit6.i.us:
  %60 = load i32, ptr %17, align 8
  %61 = icmp sgt i32 %60, 0
  %62 = icmp ult i32 %56, %60
  %63 = select i1 %61, i1 %62, i1 false
  br i1 %63, label %.thread5.i.us, label %64

64:
  %65 = load ptr, ptr %18, align 8
  %66 = icmp eq i32 %56, 0
  br i1 %66, label %__pocl_printf_long.exit.us, label %76

.thread5.i.us:
  %67 = phi i32 [ %39, %.loopexit6.thread.i.us ], [ %60, %.loopexit6.i.us ]
  %68 = phi i32 [ 0, %.loopexit6.thread.i.us ], [ %56, %.loopexit6.i.us ]
  %69 = zext i32 %68 to i64
  %70 = getelementptr [64 x i8], ptr %5, i64 0, i64 %69
  %71 = xor i32 %68, -1
  %72 = add i32 %67, %71
  %73 = zext i32 %72 to i64
  %74 = add nuw nsw i64 %73, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %70, i8 48, i64 %74, i1 false) #37
  %75 = load ptr, ptr %18, align 8
  br label %76

76:
  %77 = phi ptr [ %75, %.thread5.i.us ], [ %65, %64 ]
  %78 = phi i32 [ %67, %.thread5.i.us ], [ %56, %64 ]
  %79 = zext i32 %78 to i64
  %min.iters.check = icmp ult i32 %78, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %79, 4294967264
  %ind.end = and i64 %79, 31
  %ind.end10 = getelementptr i8, ptr %77, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %77, i64 %index
  %80 = xor i64 %index, -1
  %81 = add i64 %80, %79
  %82 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %81
  %83 = getelementptr inbounds i8, ptr %82, i64 -31
  %84 = bitcast ptr %83 to ptr
  %wide.load = load <32 x i8>, ptr %84, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %85 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %85, align 1
  %index.next = add nuw i64 %index, 32
  %86 = icmp eq i64 %index.next, %n.vec
  br i1 %86, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %79
  br i1 %cmp.n, label %__pocl_printf_long.exit.us, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph = phi i64 [ %79, %76 ], [ %ind.end, %middle.block ]
  %.ph11 = phi ptr [ %77, %76 ], [ %ind.end10, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %87 = phi i64 [ %89, %scalar.ph ], [ %.ph, %scalar.ph.preheader ]
  %88 = phi ptr [ %92, %scalar.ph ], [ %.ph11, %scalar.ph.preheader ]
  %89 = add nsw i64 %87, -1
  %90 = getelementptr inbounds [64 x i8], ptr %5, i64 0, i64 %89
  %91 = load i8, ptr %90, align 1
  %92 = getelementptr inbounds i8, ptr %88, i64 1
  store i8 %91, ptr %88, align 1
  %93 = icmp eq i64 %89, 0
  br i1 %93, label %__pocl_printf_long.exit.us, label %scalar.ph

__pocl_printf_long.exit.us:
  %94 = phi ptr [ %65, %64 ], [ %41, %.thread9.i.us ], [ %ind.end10, %middle.block ], [ %92, %scalar.ph ]
  store i8 0, ptr %94, align 1
  call void @llvm.lifetime.end.p0(ptr %5)
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  %95 = add nuw i64 %20, 1
  %96 = icmp eq i64 %95, %12
  br i1 %96, label %.loopexit, label %.split.us

.loopexit:
  ret void

.split:
  %97 = phi i64 [ %111, %__pocl_printf_putcf.exit ], [ 0, %9 ]
  store i8 %7, ptr %6, align 4, !tbaa.struct !129
  %98 = icmp eq i64 %97, 0
  br i1 %98, label %__pocl_printf_putcf.exit, label %99

99:
  %100 = load i32, ptr %13, align 8
  %101 = load i32, ptr %14, align 4
  %102 = icmp ult i32 %100, %101
  br i1 %102, label %103, label %__pocl_printf_putcf.exit

103:
  %104 = load ptr, ptr %15, align 8
  %105 = add nuw i32 %100, 1
  store i32 %105, ptr %13, align 8
  %106 = zext i32 %100 to i64
  %107 = getelementptr inbounds i8, ptr %104, i64 %106
  store i8 44, ptr %107, align 1
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %108 = getelementptr inbounds i16, ptr %11, i64 %97
  %109 = load i16, ptr %108, align 2
  %110 = zext i16 %109 to i64
  tail call void @__pocl_printf_ulong(ptr noundef nonnull %0, i64 noundef %110)
  %111 = add nuw i64 %97, 1
  %112 = icmp eq i64 %111, %12
  br i1 %112, label %.loopexit, label %.split
}

define i32 @__pocl_printf(ptr noalias noundef %0, ptr noundef captures(none) %1, i32 noundef %2, ptr addrspace(2) noalias noundef readonly captures(none) %3, ...) local_unnamed_addr {
  %5 = alloca %struct.param_t, align 8
  %6 = alloca [1 x %struct.__va_list_tag], align 16
  %7 = bitcast ptr %5 to ptr
  call void @llvm.lifetime.start.p0(ptr %5)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(40) %7, i8 0, i64 40, i1 false)
  %8 = getelementptr inbounds %struct.param_t, ptr %5, i64 0, i32 1
  store ptr %0, ptr %8, align 8
  %9 = getelementptr inbounds %struct.param_t, ptr %5, i64 0, i32 3
  store i32 %2, ptr %9, align 4
  %10 = load i32, ptr %1, align 4
  %11 = getelementptr inbounds %struct.param_t, ptr %5, i64 0, i32 2
  store i32 %10, ptr %11, align 8
  %12 = bitcast ptr %6 to ptr
  call void @llvm.lifetime.start.p0(ptr %6)
  %13 = getelementptr inbounds [1 x %struct.__va_list_tag], ptr %6, i64 0, i64 0
  call void @llvm.va_start.p0(ptr nonnull %12)
  %14 = call i32 @__pocl_printf_format_full(ptr addrspace(2) noundef %3, ptr noundef nonnull %5, ptr noundef nonnull %13)
  call void @llvm.va_end.p0(ptr nonnull %12)
  %15 = load i32, ptr %11, align 8
  store i32 %15, ptr %1, align 4
  call void @llvm.lifetime.end.p0(ptr %6)
  call void @llvm.lifetime.end.p0(ptr %5)
  ret i32 %14
}

define void @__pocl_printf_float_libc(ptr noundef captures(none) %0, double noundef %1) local_unnamed_addr {
  %3 = alloca [128 x i8], align 16
  %4 = alloca [25 x i8], align 16
  %5 = getelementptr inbounds [128 x i8], ptr %3, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %3)
  %6 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 8
  %7 = load i8, ptr %6, align 1
  %8 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %9 = load i8, ptr %8, align 4
  %10 = add i8 %7, -32
  %11 = insertelement <4 x i8> poison, i8 %9, i64 0
  %shuffle = shufflevector <4 x i8> %11, <4 x i8> poison, <4 x i32> zeroinitializer
  %12 = and <4 x i8> %shuffle, <i8 64, i8 16, i8 4, i8 8>
  %13 = icmp eq <4 x i8> %12, zeroinitializer
  %14 = extractelement <4 x i1> %13, i64 3
  %15 = select i1 %14, i8 %7, i8 %10
  %16 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %17 = load i32, ptr %16, align 8
  %18 = getelementptr inbounds [25 x i8], ptr %4, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %4)
  call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 16 dereferenceable(25) %18, ptr noundef nonnull align 16 dereferenceable(25) @__const.__pocl_printf_float_libc.str, i64 25, i1 false)
  %19 = extractelement <4 x i1> %13, i64 2
  %20 = select i1 %19, ptr @.str.1.483, ptr @.str.484
  %21 = extractelement <4 x i1> %13, i64 1
  %22 = select i1 %21, ptr @.str.1.483, ptr @.str.2.485
  %23 = extractelement <4 x i1> %13, i64 0
  %24 = select i1 %23, ptr @.str.1.483, ptr @.str.3.486
  %25 = and i8 %9, 2
  %26 = icmp eq i8 %25, 0
  %27 = select i1 %26, ptr @.str.1.483, ptr @.str.4.487
  %28 = and i8 %9, 1
  %29 = icmp eq i8 %28, 0
  %30 = select i1 %29, ptr @.str.1.483, ptr @.str.5.488
  %31 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 5
  %32 = load i32, ptr %31, align 4
  %33 = icmp eq i32 %17, -1
  %34 = select i1 %33, ptr @.str.1.483, ptr @.str.6
  %35 = select i1 %33, i32 0, i32 %17
  %36 = sext i8 %15 to i32
  %37 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr noundef nonnull %5, i64 noundef 128, ptr noundef nonnull %18, ptr noundef %20, ptr noundef %22, ptr noundef %24, ptr noundef %27, ptr noundef %30, i32 noundef %32, ptr noundef %34, i32 noundef %35, i32 noundef %36)
  %38 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %39 = load ptr, ptr %38, align 8
  %40 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr noundef nonnull dereferenceable(1) %39, i64 noundef 1200, ptr noundef nonnull %5, double noundef %1)
  %41 = load ptr, ptr %38, align 8
  %42 = getelementptr inbounds i8, ptr %41, i64 1199
  store i8 0, ptr %42, align 1
  %43 = load ptr, ptr %38, align 8
  %44 = load i8, ptr %43, align 1
  %45 = icmp eq i8 %44, 0
  br i1 %45, label %.loopexit, label %46

46:
  %47 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %48 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %49 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %50 = load i32, ptr %47, align 8
  %51 = load i32, ptr %48, align 4
  %52 = icmp ult i32 %50, %51
  br i1 %52, label %.split, label %.loopexit

.split:
  %53 = phi i32 [ %.pre4, %..split_crit_edge ], [ %51, %46 ]
  %54 = phi i32 [ %.pre, %..split_crit_edge ], [ %50, %46 ]
  %55 = phi i8 [ %65, %..split_crit_edge ], [ %44, %46 ]
  %56 = phi ptr [ %57, %..split_crit_edge ], [ %43, %46 ]
  %57 = getelementptr inbounds i8, ptr %56, i64 1
  %58 = icmp ult i32 %54, %53
  br i1 %58, label %59, label %64

59:
  %60 = load ptr, ptr %49, align 8
  %61 = add nuw i32 %54, 1
  store i32 %61, ptr %47, align 8
  %62 = zext i32 %54 to i64
  %63 = getelementptr inbounds i8, ptr %60, i64 %62
  store i8 %55, ptr %63, align 1
  br label %64

64:
  %65 = load i8, ptr %57, align 1
  %66 = icmp eq i8 %65, 0
  br i1 %66, label %.loopexit, label %..split_crit_edge

..split_crit_edge:
  %.pre = load i32, ptr %47, align 8
  %.pre4 = load i32, ptr %48, align 4
  br label %.split

.loopexit:
  call void @llvm.lifetime.end.p0(ptr %4)
  call void @llvm.lifetime.end.p0(ptr %3)
  ret void
}

define i32 @__pocl_printf_format_full(ptr addrspace(2) noalias noundef readonly captures(none) %0, ptr noundef %1, ptr noundef %2) local_unnamed_addr {
  %4 = alloca [1200 x i8], align 16
  %5 = alloca <16 x i8>, align 16
  %6 = alloca <16 x i16>, align 32
  %7 = alloca <16 x i32>, align 64
  %8 = alloca <16 x i64>, align 128
  %9 = alloca <16 x float>, align 64
  %10 = alloca <16 x double>, align 128
  %11 = getelementptr inbounds [1200 x i8], ptr %4, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %4)
  %12 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 0
  store ptr %11, ptr %12, align 8
  %13 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 7, i32 0
  %14 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 8
  %15 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 5
  %16 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 4
  %17 = getelementptr inbounds %struct.__va_list_tag, ptr %2, i64 0, i32 0
  %18 = getelementptr inbounds %struct.__va_list_tag, ptr %2, i64 0, i32 2
  %19 = getelementptr inbounds %struct.__va_list_tag, ptr %2, i64 0, i32 3
  %20 = getelementptr inbounds [1200 x i8], ptr %4, i64 0, i64 1
  %21 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 6
  %22 = bitcast ptr %9 to ptr
  %23 = getelementptr inbounds %struct.__va_list_tag, ptr %2, i64 0, i32 1
  %24 = bitcast ptr %10 to ptr
  %25 = bitcast ptr %8 to ptr
  %26 = bitcast ptr %7 to ptr
  %27 = bitcast ptr %6 to ptr
  %28 = getelementptr inbounds <16 x i8>, ptr %5, i64 0, i64 0
  %29 = getelementptr inbounds <16 x float>, ptr %9, i64 0, i64 0
  %30 = getelementptr inbounds <16 x double>, ptr %10, i64 0, i64 0
  %31 = getelementptr inbounds <16 x i64>, ptr %8, i64 0, i64 0
  %32 = getelementptr inbounds <16 x i32>, ptr %7, i64 0, i64 0
  %33 = getelementptr inbounds <16 x i16>, ptr %6, i64 0, i64 0
  %34 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 2
  %35 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 3
  %36 = getelementptr inbounds %struct.param_t, ptr %1, i64 0, i32 1
  br label %37

37:
  %38 = phi i8 [ undef, %3 ], [ %49, %.backedge ]
  %39 = phi ptr addrspace(2) [ %0, %3 ], [ %177, %.backedge ]
  br label %__pocl_printf_putcf.exit

__pocl_printf_putcf.exit:
  %40 = phi ptr addrspace(2) [ %39, %37 ], [ %750, %__pocl_printf_putcf.exit.backedge ]
  %41 = getelementptr inbounds i8, ptr addrspace(2) %40, i64 1
  %42 = load i8, ptr addrspace(2) %40, align 1
  switch i8 %42, label %749 [
    i8 0, label %__pocl_printf_putcf.exit32
    i8 37, label %43
  ]

43:
  %44 = getelementptr inbounds i8, ptr addrspace(2) %40, i64 2
  %45 = load i8, ptr addrspace(2) %41, align 1
  switch i8 %45, label %46 [
    i8 0, label %.thread54
    i8 37, label %749
  ]

46:
  %47 = and i8 %38, -128
  br label %48

48:
  %49 = phi i8 [ %47, %46 ], [ %85, %84 ]
  %50 = phi i8 [ %45, %46 ], [ %87, %84 ]
  %51 = phi ptr addrspace(2) [ %44, %46 ], [ %86, %84 ]
  %52 = sext i8 %50 to i32
  switch i32 %52, label %53 [
    i32 45, label %56
    i32 43, label %61
    i32 32, label %66
    i32 35, label %71
    i32 48, label %76
  ]

53:
  %54 = add i8 %50, -48
  %55 = icmp ult i8 %54, 10
  br i1 %55, label %.preheader58, label %.loopexit61

56:
  %57 = and i8 %49, 4
  %58 = icmp eq i8 %57, 0
  br i1 %58, label %59, label %.thread54

59:
  %60 = or i8 %49, 4
  br label %84

61:
  %62 = and i8 %49, 16
  %63 = icmp eq i8 %62, 0
  br i1 %63, label %64, label %.thread54

64:
  %65 = or i8 %49, 16
  br label %84

66:
  %67 = and i8 %49, 64
  %68 = icmp eq i8 %67, 0
  br i1 %68, label %69, label %.thread54

69:
  %70 = or i8 %49, 64
  br label %84

71:
  %72 = and i8 %49, 2
  %73 = icmp eq i8 %72, 0
  br i1 %73, label %74, label %.thread54

74:
  %75 = or i8 %49, 2
  br label %84

76:
  %77 = and i8 %49, 1
  %78 = icmp eq i8 %77, 0
  br i1 %78, label %79, label %.thread54

79:
  %80 = lshr i8 %49, 2
  %81 = and i8 %80, 1
  %82 = xor i8 %81, 1
  %83 = or i8 %82, %49
  br label %84

84:
  %85 = phi i8 [ %75, %74 ], [ %70, %69 ], [ %65, %64 ], [ %60, %59 ], [ %83, %79 ]
  %86 = getelementptr inbounds i8, ptr addrspace(2) %51, i64 1
  %87 = load i8, ptr addrspace(2) %51, align 1
  br label %48

.preheader58:
  %88 = phi ptr addrspace(2) [ %102, %97 ], [ %51, %53 ]
  %89 = phi i8 [ %103, %97 ], [ %50, %53 ]
  %90 = phi i64 [ %101, %97 ], [ 0, %53 ]
  %91 = zext i8 %89 to i64
  %92 = icmp eq i8 %89, 48
  %93 = icmp eq i64 %90, 0
  %94 = select i1 %92, i1 %93, i1 false
  br i1 %94, label %.thread54, label %95

95:
  %96 = icmp ugt i64 %90, 214748363
  br i1 %96, label %.thread54, label %97

97:
  %98 = mul nuw nsw i64 %90, 10
  %99 = add nuw nsw i64 %91, 4294967248
  %100 = and i64 %99, 4294967295
  %101 = add nuw nsw i64 %100, %98
  %102 = getelementptr inbounds i8, ptr addrspace(2) %88, i64 1
  %103 = load i8, ptr addrspace(2) %88, align 1
  %104 = add i8 %103, -48
  %105 = icmp ult i8 %104, 10
  br i1 %105, label %.preheader58, label %.loopexit61

.loopexit61:
  %106 = phi i64 [ 0, %53 ], [ %101, %97 ]
  %107 = phi i8 [ %50, %53 ], [ %103, %97 ]
  %108 = phi ptr addrspace(2) [ %51, %53 ], [ %102, %97 ]
  %109 = icmp eq i8 %107, 46
  br i1 %109, label %110, label %.loopexit

110:
  %111 = getelementptr inbounds i8, ptr addrspace(2) %108, i64 1
  %112 = load i8, ptr addrspace(2) %108, align 1
  %113 = add i8 %112, -48
  %114 = icmp ult i8 %113, 10
  br i1 %114, label %.preheader56, label %.loopexit

.preheader56:
  %115 = phi i8 [ %125, %119 ], [ %112, %110 ]
  %116 = phi ptr addrspace(2) [ %124, %119 ], [ %111, %110 ]
  %117 = phi i32 [ %123, %119 ], [ 0, %110 ]
  %118 = icmp sgt i32 %117, 214748363
  br i1 %118, label %.thread54, label %119

119:
  %120 = zext i8 %115 to i32
  %121 = mul nsw i32 %117, 10
  %122 = add nsw i32 %120, -48
  %123 = add i32 %122, %121
  %124 = getelementptr inbounds i8, ptr addrspace(2) %116, i64 1
  %125 = load i8, ptr addrspace(2) %116, align 1
  %126 = add i8 %125, -48
  %127 = icmp ult i8 %126, 10
  br i1 %127, label %.preheader56, label %.loopexit

.loopexit:
  %128 = phi i32 [ -1, %.loopexit61 ], [ 0, %110 ], [ %123, %119 ]
  %129 = phi i8 [ %107, %.loopexit61 ], [ %112, %110 ], [ %125, %119 ]
  %130 = phi ptr addrspace(2) [ %108, %.loopexit61 ], [ %111, %110 ], [ %124, %119 ]
  %131 = icmp eq i8 %129, 118
  br i1 %131, label %132, label %156

132:
  %133 = load i8, ptr addrspace(2) %130, align 1
  %134 = add i8 %133, -48
  %135 = icmp ult i8 %134, 10
  br i1 %135, label %.preheader.preheader, label %.thread54

.preheader.preheader:
  %136 = getelementptr inbounds i8, ptr addrspace(2) %130, i64 1
  br label %.preheader

.preheader:
  %137 = phi i8 [ %152, %146 ], [ %133, %.preheader.preheader ]
  %138 = phi ptr addrspace(2) [ %151, %146 ], [ %136, %.preheader.preheader ]
  %139 = phi i64 [ %150, %146 ], [ 0, %.preheader.preheader ]
  %140 = zext i8 %137 to i64
  %141 = icmp eq i8 %137, 48
  %142 = icmp eq i64 %139, 0
  %143 = select i1 %141, i1 %142, i1 false
  br i1 %143, label %.thread54, label %144

144:
  %145 = icmp ugt i64 %139, 214748363
  br i1 %145, label %.thread54, label %146

146:
  %147 = mul nuw nsw i64 %139, 10
  %148 = add nuw nsw i64 %140, 4294967248
  %149 = and i64 %148, 4294967295
  %150 = add nuw nsw i64 %149, %147
  %151 = getelementptr inbounds i8, ptr addrspace(2) %138, i64 1
  %152 = load i8, ptr addrspace(2) %138, align 1
  %153 = add i8 %152, -48
  %154 = icmp ult i8 %153, 10
  br i1 %154, label %.preheader, label %155

155:
  switch i64 %150, label %.thread54 [
    i64 16, label %156
    i64 8, label %156
    i64 4, label %156
    i64 3, label %156
    i64 2, label %156
  ]

156:
  %157 = phi i64 [ %150, %155 ], [ 0, %.loopexit ], [ %150, %155 ], [ %150, %155 ], [ %150, %155 ], [ %150, %155 ]
  %158 = phi i8 [ %152, %155 ], [ %129, %.loopexit ], [ %152, %155 ], [ %152, %155 ], [ %152, %155 ], [ %152, %155 ]
  %159 = phi ptr addrspace(2) [ %151, %155 ], [ %130, %.loopexit ], [ %151, %155 ], [ %151, %155 ], [ %151, %155 ], [ %151, %155 ]
  switch i8 %158, label %164 [
    i8 104, label %160
    i8 108, label %.thread38
  ]

160:
  %161 = getelementptr inbounds i8, ptr addrspace(2) %159, i64 1
  %162 = load i8, ptr addrspace(2) %159, align 1
  switch i8 %162, label %.thread39 [
    i8 104, label %.thread38
    i8 108, label %165
  ]

.thread39:
  %163 = icmp eq i64 %157, 0
  br i1 %163, label %.thread38.thread, label %.thread38.thread141

164:
  %.not = icmp eq i64 %157, 0
  br i1 %.not, label %.thread38.thread, label %.thread54

165:
  %166 = getelementptr inbounds i8, ptr addrspace(2) %159, i64 2
  %167 = load i8, ptr addrspace(2) %161, align 1
  %168 = icmp eq i64 %157, 0
  br i1 %168, label %.thread54, label %.thread38.thread141

.thread38:
  %.ph = phi i64 [ 1, %156 ], [ 2, %160 ]
  %.ph46 = phi ptr addrspace(2) [ %159, %156 ], [ %161, %160 ]
  %.ph47 = phi i1 [ true, %156 ], [ false, %160 ]
  %.ph48 = phi i64 [ 8, %156 ], [ 1, %160 ]
  %169 = getelementptr inbounds i8, ptr addrspace(2) %159, i64 %.ph
  %170 = load i8, ptr addrspace(2) %.ph46, align 1
  %171 = icmp eq i64 %157, 0
  br i1 %171, label %.thread38.thread, label %.thread38.thread141

.thread38.thread:
  %172 = phi ptr addrspace(2) [ %169, %.thread38 ], [ %161, %.thread39 ], [ %159, %164 ]
  %173 = phi i8 [ %170, %.thread38 ], [ %162, %.thread39 ], [ %158, %164 ]
  %174 = phi i64 [ %.ph48, %.thread38 ], [ 2, %.thread39 ], [ 0, %164 ]
  %175 = phi i1 [ %.ph47, %.thread38 ], [ false, %.thread39 ], [ false, %164 ]
  %176 = phi i1 [ true, %.thread38 ], [ true, %.thread39 ], [ false, %164 ]
  br label %.thread38.thread141

.thread38.thread141:
  %177 = phi ptr addrspace(2) [ %172, %.thread38.thread ], [ %169, %.thread38 ], [ %161, %.thread39 ], [ %166, %165 ]
  %178 = phi i8 [ %173, %.thread38.thread ], [ %170, %.thread38 ], [ %162, %.thread39 ], [ %167, %165 ]
  %179 = phi i64 [ %174, %.thread38.thread ], [ %.ph48, %.thread38 ], [ 2, %.thread39 ], [ 4, %165 ]
  %180 = phi i1 [ %175, %.thread38.thread ], [ %.ph47, %.thread38 ], [ false, %.thread39 ], [ false, %165 ]
  %181 = phi i1 [ %176, %.thread38.thread ], [ true, %.thread38 ], [ true, %.thread39 ], [ true, %165 ]
  %182 = phi i64 [ 1, %.thread38.thread ], [ %157, %.thread38 ], [ %157, %.thread39 ], [ %157, %165 ]
  store i8 %49, ptr %13, align 4, !tbaa.struct !129
  store i8 %178, ptr %14, align 1
  %183 = trunc i64 %106 to i32
  store i32 %183, ptr %15, align 4
  store i32 %128, ptr %16, align 8
  %184 = sext i8 %178 to i32
  switch i32 %184, label %.thread54 [
    i32 100, label %185
    i32 105, label %185
    i32 111, label %185
    i32 117, label %185
    i32 120, label %185
    i32 88, label %185
    i32 102, label %521
    i32 70, label %521
    i32 101, label %521
    i32 69, label %521
    i32 103, label %521
    i32 71, label %521
    i32 97, label %521
    i32 65, label %521
    i32 99, label %672
    i32 115, label %696
    i32 112, label %726
  ]

185:
  %186 = icmp eq i8 %178, 88
  %187 = and i8 %178, -33
  %188 = icmp eq i8 %187, 88
  %189 = select i1 %188, i32 16, i32 10
  %190 = icmp eq i8 %178, 111
  %191 = select i1 %190, i32 8, i32 %189
  br i1 %186, label %192, label %194

192:
  %193 = or i8 %49, 8
  store i8 %193, ptr %13, align 4
  br label %194

194:
  %195 = phi i8 [ %193, %192 ], [ %49, %185 ]
  %196 = icmp eq i8 %178, 117
  %197 = icmp ne i32 %191, 10
  %198 = select i1 %196, i1 true, i1 %197
  %199 = zext i1 %198 to i32
  %200 = icmp sgt i32 %128, 0
  br i1 %200, label %.thread50, label %202

.thread50:
  %201 = and i8 %195, -2
  store i8 %201, ptr %13, align 4
  br label %205

202:
  %203 = icmp slt i32 %128, 0
  br i1 %203, label %204, label %205

204:
  store i32 1, ptr %16, align 8
  br label %205

205:
  store i32 %191, ptr %21, align 8
  switch i64 %179, label %520 [
    i64 1, label %206
    i64 2, label %294
    i64 0, label %376
    i64 4, label %376
    i64 8, label %451
  ]

206:
  call void @llvm.lifetime.start.p0(ptr %5)
  switch i64 %182, label %207 [
    i64 1, label %208
    i64 2, label %224
    i64 3, label %240
    i64 4, label %240
    i64 8, label %256
    i64 16, label %272
  ]

207:
  unreachable

208:
  %209 = load i32, ptr %17, align 8
  %210 = icmp ult i32 %209, 41
  br i1 %210, label %211, label %216

211:
  %212 = load ptr, ptr %19, align 8
  %213 = zext i32 %209 to i64
  %214 = getelementptr i8, ptr %212, i64 %213
  %215 = add nuw nsw i32 %209, 8
  store i32 %215, ptr %17, align 8
  br label %219

216:
  %217 = load ptr, ptr %18, align 8
  %218 = getelementptr i8, ptr %217, i64 8
  store ptr %218, ptr %18, align 8
  br label %219

219:
  %220 = phi ptr [ %214, %211 ], [ %217, %216 ]
  %221 = bitcast ptr %220 to ptr
  %222 = load i32, ptr %221, align 4
  %223 = trunc i32 %222 to i8
  store i8 %223, ptr %28, align 16
  br label %292

224:
  %225 = load i32, ptr %17, align 8
  %226 = icmp ult i32 %225, 41
  br i1 %226, label %227, label %232

227:
  %228 = load ptr, ptr %19, align 8
  %229 = zext i32 %225 to i64
  %230 = getelementptr i8, ptr %228, i64 %229
  %231 = add nuw nsw i32 %225, 8
  store i32 %231, ptr %17, align 8
  br label %235

232:
  %233 = load ptr, ptr %18, align 8
  %234 = getelementptr i8, ptr %233, i64 8
  store ptr %234, ptr %18, align 8
  br label %235

235:
  %236 = phi ptr [ %230, %227 ], [ %233, %232 ]
  %237 = bitcast ptr %236 to ptr
  %238 = load <2 x i8>, ptr %237, align 2
  %239 = shufflevector <2 x i8> %238, <2 x i8> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i8> %239, ptr %5, align 16
  br label %292

240:
  %241 = load i32, ptr %17, align 8
  %242 = icmp ult i32 %241, 41
  br i1 %242, label %243, label %248

243:
  %244 = load ptr, ptr %19, align 8
  %245 = zext i32 %241 to i64
  %246 = getelementptr i8, ptr %244, i64 %245
  %247 = add nuw nsw i32 %241, 8
  store i32 %247, ptr %17, align 8
  br label %251

248:
  %249 = load ptr, ptr %18, align 8
  %250 = getelementptr i8, ptr %249, i64 8
  store ptr %250, ptr %18, align 8
  br label %251

251:
  %252 = phi ptr [ %246, %243 ], [ %249, %248 ]
  %253 = bitcast ptr %252 to ptr
  %254 = load <4 x i8>, ptr %253, align 4
  %255 = shufflevector <4 x i8> %254, <4 x i8> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i8> %255, ptr %5, align 16
  br label %292

256:
  %257 = load i32, ptr %23, align 4
  %258 = icmp ult i32 %257, 161
  br i1 %258, label %259, label %264

259:
  %260 = load ptr, ptr %19, align 8
  %261 = zext i32 %257 to i64
  %262 = getelementptr i8, ptr %260, i64 %261
  %263 = add nuw nsw i32 %257, 16
  store i32 %263, ptr %23, align 4
  br label %267

264:
  %265 = load ptr, ptr %18, align 8
  %266 = getelementptr i8, ptr %265, i64 8
  store ptr %266, ptr %18, align 8
  br label %267

267:
  %268 = phi ptr [ %262, %259 ], [ %265, %264 ]
  %269 = bitcast ptr %268 to ptr
  %270 = load <8 x i8>, ptr %269, align 8
  %271 = shufflevector <8 x i8> %270, <8 x i8> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i8> %271, ptr %5, align 16
  br label %292

272:
  %273 = load i32, ptr %23, align 4
  %274 = icmp ult i32 %273, 161
  br i1 %274, label %275, label %281

275:
  %276 = load ptr, ptr %19, align 8
  %277 = zext i32 %273 to i64
  %278 = getelementptr i8, ptr %276, i64 %277
  %279 = bitcast ptr %278 to ptr
  %280 = add nuw nsw i32 %273, 16
  store i32 %280, ptr %23, align 4
  br label %289

281:
  %282 = load ptr, ptr %18, align 8
  %283 = ptrtoint ptr %282 to i64
  %284 = add i64 %283, 15
  %285 = and i64 %284, -16
  %286 = inttoptr i64 %285 to ptr
  %287 = inttoptr i64 %285 to ptr
  %288 = getelementptr i8, ptr %286, i64 16
  store ptr %288, ptr %18, align 8
  br label %289

289:
  %290 = phi ptr [ %279, %275 ], [ %287, %281 ]
  %291 = load <16 x i8>, ptr %290, align 16
  store <16 x i8> %291, ptr %5, align 16
  br label %292

292:
  %293 = trunc i64 %182 to i32
  call void @__pocl_print_ints_uchar(ptr noundef nonnull %1, ptr noundef nonnull %28, i32 noundef %293, i32 noundef %199)
  call void @llvm.lifetime.end.p0(ptr %5)
  br label %.backedge

294:
  call void @llvm.lifetime.start.p0(ptr %6)
  switch i64 %182, label %295 [
    i64 1, label %296
    i64 2, label %312
    i64 3, label %328
    i64 4, label %328
    i64 8, label %344
    i64 16, label %365
  ]

295:
  unreachable

296:
  %297 = load i32, ptr %17, align 8
  %298 = icmp ult i32 %297, 41
  br i1 %298, label %299, label %304

299:
  %300 = load ptr, ptr %19, align 8
  %301 = zext i32 %297 to i64
  %302 = getelementptr i8, ptr %300, i64 %301
  %303 = add nuw nsw i32 %297, 8
  store i32 %303, ptr %17, align 8
  br label %307

304:
  %305 = load ptr, ptr %18, align 8
  %306 = getelementptr i8, ptr %305, i64 8
  store ptr %306, ptr %18, align 8
  br label %307

307:
  %308 = phi ptr [ %302, %299 ], [ %305, %304 ]
  %309 = bitcast ptr %308 to ptr
  %310 = load i32, ptr %309, align 4
  %311 = trunc i32 %310 to i16
  store i16 %311, ptr %33, align 32
  br label %374

312:
  %313 = load i32, ptr %17, align 8
  %314 = icmp ult i32 %313, 41
  br i1 %314, label %315, label %320

315:
  %316 = load ptr, ptr %19, align 8
  %317 = zext i32 %313 to i64
  %318 = getelementptr i8, ptr %316, i64 %317
  %319 = add nuw nsw i32 %313, 8
  store i32 %319, ptr %17, align 8
  br label %323

320:
  %321 = load ptr, ptr %18, align 8
  %322 = getelementptr i8, ptr %321, i64 8
  store ptr %322, ptr %18, align 8
  br label %323

323:
  %324 = phi ptr [ %318, %315 ], [ %321, %320 ]
  %325 = bitcast ptr %324 to ptr
  %326 = load <2 x i16>, ptr %325, align 4
  %327 = shufflevector <2 x i16> %326, <2 x i16> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i16> %327, ptr %6, align 32
  br label %374

328:
  %329 = load i32, ptr %23, align 4
  %330 = icmp ult i32 %329, 161
  br i1 %330, label %331, label %336

331:
  %332 = load ptr, ptr %19, align 8
  %333 = zext i32 %329 to i64
  %334 = getelementptr i8, ptr %332, i64 %333
  %335 = add nuw nsw i32 %329, 16
  store i32 %335, ptr %23, align 4
  br label %339

336:
  %337 = load ptr, ptr %18, align 8
  %338 = getelementptr i8, ptr %337, i64 8
  store ptr %338, ptr %18, align 8
  br label %339

339:
  %340 = phi ptr [ %334, %331 ], [ %337, %336 ]
  %341 = bitcast ptr %340 to ptr
  %342 = load <4 x i16>, ptr %341, align 8
  %343 = shufflevector <4 x i16> %342, <4 x i16> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i16> %343, ptr %6, align 32
  br label %374

344:
  %345 = load i32, ptr %23, align 4
  %346 = icmp ult i32 %345, 161
  br i1 %346, label %347, label %353

347:
  %348 = load ptr, ptr %19, align 8
  %349 = zext i32 %345 to i64
  %350 = getelementptr i8, ptr %348, i64 %349
  %351 = bitcast ptr %350 to ptr
  %352 = add nuw nsw i32 %345, 16
  store i32 %352, ptr %23, align 4
  br label %361

353:
  %354 = load ptr, ptr %18, align 8
  %355 = ptrtoint ptr %354 to i64
  %356 = add i64 %355, 15
  %357 = and i64 %356, -16
  %358 = inttoptr i64 %357 to ptr
  %359 = inttoptr i64 %357 to ptr
  %360 = getelementptr i8, ptr %358, i64 16
  store ptr %360, ptr %18, align 8
  br label %361

361:
  %362 = phi ptr [ %351, %347 ], [ %359, %353 ]
  %363 = load <8 x i16>, ptr %362, align 16
  %364 = shufflevector <8 x i16> %363, <8 x i16> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i16> %364, ptr %6, align 32
  br label %374

365:
  %366 = load ptr, ptr %18, align 8
  %367 = ptrtoint ptr %366 to i64
  %368 = add i64 %367, 31
  %369 = and i64 %368, -32
  %370 = inttoptr i64 %369 to ptr
  %371 = inttoptr i64 %369 to ptr
  %372 = getelementptr i8, ptr %370, i64 32
  store ptr %372, ptr %18, align 8
  %373 = load <16 x i16>, ptr %371, align 32
  store <16 x i16> %373, ptr %6, align 32
  br label %374

374:
  %375 = trunc i64 %182 to i32
  call void @__pocl_print_ints_ushort(ptr noundef nonnull %1, ptr noundef nonnull %27, i32 noundef %375, i32 noundef %199)
  call void @llvm.lifetime.end.p0(ptr %6)
  br label %.backedge

376:
  call void @llvm.lifetime.start.p0(ptr %7)
  switch i64 %182, label %377 [
    i64 1, label %378
    i64 2, label %393
    i64 3, label %409
    i64 4, label %409
    i64 8, label %430
    i64 16, label %440
  ]

377:
  unreachable

378:
  %379 = load i32, ptr %17, align 8
  %380 = icmp ult i32 %379, 41
  br i1 %380, label %381, label %386

381:
  %382 = load ptr, ptr %19, align 8
  %383 = zext i32 %379 to i64
  %384 = getelementptr i8, ptr %382, i64 %383
  %385 = add nuw nsw i32 %379, 8
  store i32 %385, ptr %17, align 8
  br label %389

386:
  %387 = load ptr, ptr %18, align 8
  %388 = getelementptr i8, ptr %387, i64 8
  store ptr %388, ptr %18, align 8
  br label %389

389:
  %390 = phi ptr [ %384, %381 ], [ %387, %386 ]
  %391 = bitcast ptr %390 to ptr
  %392 = load i32, ptr %391, align 4
  store i32 %392, ptr %32, align 64
  br label %449

393:
  %394 = load i32, ptr %23, align 4
  %395 = icmp ult i32 %394, 161
  br i1 %395, label %396, label %401

396:
  %397 = load ptr, ptr %19, align 8
  %398 = zext i32 %394 to i64
  %399 = getelementptr i8, ptr %397, i64 %398
  %400 = add nuw nsw i32 %394, 16
  store i32 %400, ptr %23, align 4
  br label %404

401:
  %402 = load ptr, ptr %18, align 8
  %403 = getelementptr i8, ptr %402, i64 8
  store ptr %403, ptr %18, align 8
  br label %404

404:
  %405 = phi ptr [ %399, %396 ], [ %402, %401 ]
  %406 = bitcast ptr %405 to ptr
  %407 = load <2 x i32>, ptr %406, align 8
  %408 = shufflevector <2 x i32> %407, <2 x i32> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i32> %408, ptr %7, align 64
  br label %449

409:
  %410 = load i32, ptr %23, align 4
  %411 = icmp ult i32 %410, 161
  br i1 %411, label %412, label %418

412:
  %413 = load ptr, ptr %19, align 8
  %414 = zext i32 %410 to i64
  %415 = getelementptr i8, ptr %413, i64 %414
  %416 = bitcast ptr %415 to ptr
  %417 = add nuw nsw i32 %410, 16
  store i32 %417, ptr %23, align 4
  br label %426

418:
  %419 = load ptr, ptr %18, align 8
  %420 = ptrtoint ptr %419 to i64
  %421 = add i64 %420, 15
  %422 = and i64 %421, -16
  %423 = inttoptr i64 %422 to ptr
  %424 = inttoptr i64 %422 to ptr
  %425 = getelementptr i8, ptr %423, i64 16
  store ptr %425, ptr %18, align 8
  br label %426

426:
  %427 = phi ptr [ %416, %412 ], [ %424, %418 ]
  %428 = load <4 x i32>, ptr %427, align 16
  %429 = shufflevector <4 x i32> %428, <4 x i32> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i32> %429, ptr %7, align 64
  br label %449

430:
  %431 = load ptr, ptr %18, align 8
  %432 = ptrtoint ptr %431 to i64
  %433 = add i64 %432, 31
  %434 = and i64 %433, -32
  %435 = inttoptr i64 %434 to ptr
  %436 = inttoptr i64 %434 to ptr
  %437 = getelementptr i8, ptr %435, i64 32
  store ptr %437, ptr %18, align 8
  %438 = load <8 x i32>, ptr %436, align 32
  %439 = shufflevector <8 x i32> %438, <8 x i32> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i32> %439, ptr %7, align 64
  br label %449

440:
  %441 = load ptr, ptr %18, align 8
  %442 = ptrtoint ptr %441 to i64
  %443 = add i64 %442, 63
  %444 = and i64 %443, -64
  %445 = inttoptr i64 %444 to ptr
  %446 = inttoptr i64 %444 to ptr
  %447 = getelementptr i8, ptr %445, i64 64
  store ptr %447, ptr %18, align 8
  %448 = load <16 x i32>, ptr %446, align 64
  store <16 x i32> %448, ptr %7, align 64
  br label %449

449:
  %450 = trunc i64 %182 to i32
  call void @__pocl_print_ints_uint(ptr noundef nonnull %1, ptr noundef nonnull %26, i32 noundef %450, i32 noundef %199)
  call void @llvm.lifetime.end.p0(ptr %7)
  br label %.backedge

451:
  call void @llvm.lifetime.start.p0(ptr %8)
  switch i64 %182, label %452 [
    i64 1, label %453
    i64 2, label %468
    i64 3, label %489
    i64 4, label %489
    i64 8, label %499
    i64 16, label %509
  ]

452:
  unreachable

453:
  %454 = load i32, ptr %17, align 8
  %455 = icmp ult i32 %454, 41
  br i1 %455, label %456, label %461

456:
  %457 = load ptr, ptr %19, align 8
  %458 = zext i32 %454 to i64
  %459 = getelementptr i8, ptr %457, i64 %458
  %460 = add nuw nsw i32 %454, 8
  store i32 %460, ptr %17, align 8
  br label %464

461:
  %462 = load ptr, ptr %18, align 8
  %463 = getelementptr i8, ptr %462, i64 8
  store ptr %463, ptr %18, align 8
  br label %464

464:
  %465 = phi ptr [ %459, %456 ], [ %462, %461 ]
  %466 = bitcast ptr %465 to ptr
  %467 = load i64, ptr %466, align 8
  store i64 %467, ptr %31, align 128
  br label %518

468:
  %469 = load i32, ptr %23, align 4
  %470 = icmp ult i32 %469, 161
  br i1 %470, label %471, label %477

471:
  %472 = load ptr, ptr %19, align 8
  %473 = zext i32 %469 to i64
  %474 = getelementptr i8, ptr %472, i64 %473
  %475 = bitcast ptr %474 to ptr
  %476 = add nuw nsw i32 %469, 16
  store i32 %476, ptr %23, align 4
  br label %485

477:
  %478 = load ptr, ptr %18, align 8
  %479 = ptrtoint ptr %478 to i64
  %480 = add i64 %479, 15
  %481 = and i64 %480, -16
  %482 = inttoptr i64 %481 to ptr
  %483 = inttoptr i64 %481 to ptr
  %484 = getelementptr i8, ptr %482, i64 16
  store ptr %484, ptr %18, align 8
  br label %485

485:
  %486 = phi ptr [ %475, %471 ], [ %483, %477 ]
  %487 = load <2 x i64>, ptr %486, align 16
  %488 = shufflevector <2 x i64> %487, <2 x i64> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i64> %488, ptr %8, align 128
  br label %518

489:
  %490 = load ptr, ptr %18, align 8
  %491 = ptrtoint ptr %490 to i64
  %492 = add i64 %491, 31
  %493 = and i64 %492, -32
  %494 = inttoptr i64 %493 to ptr
  %495 = inttoptr i64 %493 to ptr
  %496 = getelementptr i8, ptr %494, i64 32
  store ptr %496, ptr %18, align 8
  %497 = load <4 x i64>, ptr %495, align 32
  %498 = shufflevector <4 x i64> %497, <4 x i64> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i64> %498, ptr %8, align 128
  br label %518

499:
  %500 = load ptr, ptr %18, align 8
  %501 = ptrtoint ptr %500 to i64
  %502 = add i64 %501, 63
  %503 = and i64 %502, -64
  %504 = inttoptr i64 %503 to ptr
  %505 = inttoptr i64 %503 to ptr
  %506 = getelementptr i8, ptr %504, i64 64
  store ptr %506, ptr %18, align 8
  %507 = load <8 x i64>, ptr %505, align 64
  %508 = shufflevector <8 x i64> %507, <8 x i64> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x i64> %508, ptr %8, align 128
  br label %518

509:
  %510 = load ptr, ptr %18, align 8
  %511 = ptrtoint ptr %510 to i64
  %512 = add i64 %511, 127
  %513 = and i64 %512, -128
  %514 = inttoptr i64 %513 to ptr
  %515 = inttoptr i64 %513 to ptr
  %516 = getelementptr i8, ptr %514, i64 128
  store ptr %516, ptr %18, align 8
  %517 = load <16 x i64>, ptr %515, align 128
  store <16 x i64> %517, ptr %8, align 128
  br label %518

518:
  %519 = trunc i64 %182 to i32
  call void @__pocl_print_ints_ulong(ptr noundef nonnull %1, ptr noundef nonnull %25, i32 noundef %519, i32 noundef %199)
  call void @llvm.lifetime.end.p0(ptr %8)
  br label %.backedge

520:
  unreachable

521:
  store i32 10, ptr %21, align 8
  %522 = icmp slt i8 %178, 88
  br i1 %522, label %523, label %526

523:
  %524 = or i8 %49, 8
  store i8 %524, ptr %13, align 4
  %525 = add nsw i8 %178, 32
  store i8 %525, ptr %14, align 1
  br label %526

526:
  br i1 %180, label %603, label %527

527:
  call void @llvm.lifetime.start.p0(ptr %9)
  switch i64 %182, label %528 [
    i64 1, label %529
    i64 2, label %545
    i64 3, label %561
    i64 4, label %561
    i64 8, label %582
    i64 16, label %592
  ]

528:
  unreachable

529:
  %530 = load i32, ptr %23, align 4
  %531 = icmp ult i32 %530, 161
  br i1 %531, label %532, label %537

532:
  %533 = load ptr, ptr %19, align 8
  %534 = zext i32 %530 to i64
  %535 = getelementptr i8, ptr %533, i64 %534
  %536 = add nuw nsw i32 %530, 16
  store i32 %536, ptr %23, align 4
  br label %540

537:
  %538 = load ptr, ptr %18, align 8
  %539 = getelementptr i8, ptr %538, i64 8
  store ptr %539, ptr %18, align 8
  br label %540

540:
  %541 = phi ptr [ %535, %532 ], [ %538, %537 ]
  %542 = bitcast ptr %541 to ptr
  %543 = load double, ptr %542, align 8
  %544 = fptrunc double %543 to float
  store float %544, ptr %29, align 64
  br label %601

545:
  %546 = load i32, ptr %23, align 4
  %547 = icmp ult i32 %546, 161
  br i1 %547, label %548, label %553

548:
  %549 = load ptr, ptr %19, align 8
  %550 = zext i32 %546 to i64
  %551 = getelementptr i8, ptr %549, i64 %550
  %552 = add nuw nsw i32 %546, 16
  store i32 %552, ptr %23, align 4
  br label %556

553:
  %554 = load ptr, ptr %18, align 8
  %555 = getelementptr i8, ptr %554, i64 8
  store ptr %555, ptr %18, align 8
  br label %556

556:
  %557 = phi ptr [ %551, %548 ], [ %554, %553 ]
  %558 = bitcast ptr %557 to ptr
  %559 = load <2 x float>, ptr %558, align 8
  %560 = shufflevector <2 x float> %559, <2 x float> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x float> %560, ptr %9, align 64
  br label %601

561:
  %562 = load i32, ptr %23, align 4
  %563 = icmp ult i32 %562, 161
  br i1 %563, label %564, label %570

564:
  %565 = load ptr, ptr %19, align 8
  %566 = zext i32 %562 to i64
  %567 = getelementptr i8, ptr %565, i64 %566
  %568 = bitcast ptr %567 to ptr
  %569 = add nuw nsw i32 %562, 16
  store i32 %569, ptr %23, align 4
  br label %578

570:
  %571 = load ptr, ptr %18, align 8
  %572 = ptrtoint ptr %571 to i64
  %573 = add i64 %572, 15
  %574 = and i64 %573, -16
  %575 = inttoptr i64 %574 to ptr
  %576 = inttoptr i64 %574 to ptr
  %577 = getelementptr i8, ptr %575, i64 16
  store ptr %577, ptr %18, align 8
  br label %578

578:
  %579 = phi ptr [ %568, %564 ], [ %576, %570 ]
  %580 = load <4 x float>, ptr %579, align 16
  %581 = shufflevector <4 x float> %580, <4 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x float> %581, ptr %9, align 64
  br label %601

582:
  %583 = load ptr, ptr %18, align 8
  %584 = ptrtoint ptr %583 to i64
  %585 = add i64 %584, 31
  %586 = and i64 %585, -32
  %587 = inttoptr i64 %586 to ptr
  %588 = inttoptr i64 %586 to ptr
  %589 = getelementptr i8, ptr %587, i64 32
  store ptr %589, ptr %18, align 8
  %590 = load <8 x float>, ptr %588, align 32
  %591 = shufflevector <8 x float> %590, <8 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x float> %591, ptr %9, align 64
  br label %601

592:
  %593 = load ptr, ptr %18, align 8
  %594 = ptrtoint ptr %593 to i64
  %595 = add i64 %594, 63
  %596 = and i64 %595, -64
  %597 = inttoptr i64 %596 to ptr
  %598 = inttoptr i64 %596 to ptr
  %599 = getelementptr i8, ptr %597, i64 64
  store ptr %599, ptr %18, align 8
  %600 = load <16 x float>, ptr %598, align 64
  store <16 x float> %600, ptr %9, align 64
  br label %601

601:
  %602 = trunc i64 %182 to i32
  call void @__pocl_print_floats_float(ptr noundef nonnull %1, ptr noundef nonnull %22, i32 noundef %602)
  call void @llvm.lifetime.end.p0(ptr %9)
  br label %.backedge

603:
  call void @llvm.lifetime.start.p0(ptr %10)
  switch i64 %182, label %604 [
    i64 1, label %605
    i64 2, label %620
    i64 3, label %641
    i64 4, label %641
    i64 8, label %651
    i64 16, label %661
  ]

604:
  unreachable

605:
  %606 = load i32, ptr %23, align 4
  %607 = icmp ult i32 %606, 161
  br i1 %607, label %608, label %613

608:
  %609 = load ptr, ptr %19, align 8
  %610 = zext i32 %606 to i64
  %611 = getelementptr i8, ptr %609, i64 %610
  %612 = add nuw nsw i32 %606, 16
  store i32 %612, ptr %23, align 4
  br label %616

613:
  %614 = load ptr, ptr %18, align 8
  %615 = getelementptr i8, ptr %614, i64 8
  store ptr %615, ptr %18, align 8
  br label %616

616:
  %617 = phi ptr [ %611, %608 ], [ %614, %613 ]
  %618 = bitcast ptr %617 to ptr
  %619 = load double, ptr %618, align 8
  store double %619, ptr %30, align 128
  br label %670

620:
  %621 = load i32, ptr %23, align 4
  %622 = icmp ult i32 %621, 161
  br i1 %622, label %623, label %629

623:
  %624 = load ptr, ptr %19, align 8
  %625 = zext i32 %621 to i64
  %626 = getelementptr i8, ptr %624, i64 %625
  %627 = bitcast ptr %626 to ptr
  %628 = add nuw nsw i32 %621, 16
  store i32 %628, ptr %23, align 4
  br label %637

629:
  %630 = load ptr, ptr %18, align 8
  %631 = ptrtoint ptr %630 to i64
  %632 = add i64 %631, 15
  %633 = and i64 %632, -16
  %634 = inttoptr i64 %633 to ptr
  %635 = inttoptr i64 %633 to ptr
  %636 = getelementptr i8, ptr %634, i64 16
  store ptr %636, ptr %18, align 8
  br label %637

637:
  %638 = phi ptr [ %627, %623 ], [ %635, %629 ]
  %639 = load <2 x double>, ptr %638, align 16
  %640 = shufflevector <2 x double> %639, <2 x double> poison, <16 x i32> <i32 0, i32 1, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x double> %640, ptr %10, align 128
  br label %670

641:
  %642 = load ptr, ptr %18, align 8
  %643 = ptrtoint ptr %642 to i64
  %644 = add i64 %643, 31
  %645 = and i64 %644, -32
  %646 = inttoptr i64 %645 to ptr
  %647 = inttoptr i64 %645 to ptr
  %648 = getelementptr i8, ptr %646, i64 32
  store ptr %648, ptr %18, align 8
  %649 = load <4 x double>, ptr %647, align 32
  %650 = shufflevector <4 x double> %649, <4 x double> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x double> %650, ptr %10, align 128
  br label %670

651:
  %652 = load ptr, ptr %18, align 8
  %653 = ptrtoint ptr %652 to i64
  %654 = add i64 %653, 63
  %655 = and i64 %654, -64
  %656 = inttoptr i64 %655 to ptr
  %657 = inttoptr i64 %655 to ptr
  %658 = getelementptr i8, ptr %656, i64 64
  store ptr %658, ptr %18, align 8
  %659 = load <8 x double>, ptr %657, align 64
  %660 = shufflevector <8 x double> %659, <8 x double> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  store <16 x double> %660, ptr %10, align 128
  br label %670

661:
  %662 = load ptr, ptr %18, align 8
  %663 = ptrtoint ptr %662 to i64
  %664 = add i64 %663, 127
  %665 = and i64 %664, -128
  %666 = inttoptr i64 %665 to ptr
  %667 = inttoptr i64 %665 to ptr
  %668 = getelementptr i8, ptr %666, i64 128
  store ptr %668, ptr %18, align 8
  %669 = load <16 x double>, ptr %667, align 128
  store <16 x double> %669, ptr %10, align 128
  br label %670

670:
  %671 = trunc i64 %182 to i32
  call void @__pocl_print_floats_double(ptr noundef nonnull %1, ptr noundef nonnull %24, i32 noundef %671)
  call void @llvm.lifetime.end.p0(ptr %10)
  br label %.backedge

672:
  %673 = and i8 %49, 83
  %674 = icmp ne i8 %673, 0
  %675 = icmp sgt i32 %128, -1
  %676 = select i1 %674, i1 true, i1 %675
  %677 = icmp ne i64 %182, 1
  %678 = select i1 %676, i1 true, i1 %677
  %679 = or i1 %181, %678
  br i1 %679, label %.thread54, label %680

680:
  %681 = load i32, ptr %17, align 8
  %682 = icmp ult i32 %681, 41
  br i1 %682, label %683, label %688

683:
  %684 = load ptr, ptr %19, align 8
  %685 = zext i32 %681 to i64
  %686 = getelementptr i8, ptr %684, i64 %685
  %687 = add nuw nsw i32 %681, 8
  store i32 %687, ptr %17, align 8
  br label %691

688:
  %689 = load ptr, ptr %18, align 8
  %690 = getelementptr i8, ptr %689, i64 8
  store ptr %690, ptr %18, align 8
  br label %691

691:
  %692 = phi ptr [ %686, %683 ], [ %689, %688 ]
  %693 = bitcast ptr %692 to ptr
  %694 = load i32, ptr %693, align 4
  %695 = trunc i32 %694 to i8
  store i8 %695, ptr %11, align 16
  store i8 0, ptr %20, align 1
  call void @__pocl_printf_putchw(ptr noundef nonnull %1)
  br label %.backedge

.backedge:
  br label %37

696:
  %697 = and i8 %49, 83
  %698 = icmp eq i8 %697, 0
  br i1 %698, label %699, label %.thread54

699:
  %700 = icmp ne i64 %182, 1
  %701 = or i1 %181, %700
  br i1 %701, label %.thread54.loopexit65.split.loop.exit93, label %702

702:
  %703 = load i32, ptr %17, align 8
  %704 = icmp ult i32 %703, 41
  br i1 %704, label %705, label %710

705:
  %706 = load ptr, ptr %19, align 8
  %707 = zext i32 %703 to i64
  %708 = getelementptr i8, ptr %706, i64 %707
  %709 = add nuw nsw i32 %703, 8
  store i32 %709, ptr %17, align 8
  br label %713

710:
  %711 = load ptr, ptr %18, align 8
  %712 = getelementptr i8, ptr %711, i64 8
  store ptr %712, ptr %18, align 8
  br label %713

713:
  %714 = phi ptr [ %708, %705 ], [ %711, %710 ]
  %715 = bitcast ptr %714 to ptr
  %716 = load ptr, ptr %715, align 8
  %717 = icmp eq ptr %716, null
  br i1 %717, label %718, label %720

718:
  %719 = sext i32 %128 to i64
  call void @__pocl_printf_puts_ljust(ptr noundef nonnull %1, ptr noundef @.str.4, i64 noundef %106, i64 noundef %719)
  br label %.backedge

720:
  %721 = and i8 %49, 4
  %722 = icmp eq i8 %721, 0
  %723 = sext i32 %128 to i64
  br i1 %722, label %725, label %724

724:
  call void @__pocl_printf_puts_ljust(ptr noundef nonnull %1, ptr noundef nonnull %716, i64 noundef %106, i64 noundef %723)
  br label %.backedge

725:
  call void @__pocl_printf_puts_rjust(ptr noundef nonnull %1, ptr noundef nonnull %716, i64 noundef %106, i64 noundef %723)
  br label %.backedge

726:
  %727 = and i8 %49, 83
  %728 = icmp eq i8 %727, 0
  br i1 %728, label %729, label %.thread54

729:
  %730 = icmp sgt i32 %128, -1
  br i1 %730, label %.thread54, label %731

731:
  %732 = icmp ne i64 %182, 1
  %733 = or i1 %181, %732
  br i1 %733, label %.thread54.loopexit65.split.loop.exit99, label %734

734:
  %735 = load i32, ptr %17, align 8
  %736 = icmp ult i32 %735, 41
  br i1 %736, label %737, label %742

737:
  %738 = load ptr, ptr %19, align 8
  %739 = zext i32 %735 to i64
  %740 = getelementptr i8, ptr %738, i64 %739
  %741 = add nuw nsw i32 %735, 8
  store i32 %741, ptr %17, align 8
  br label %745

742:
  %743 = load ptr, ptr %18, align 8
  %744 = getelementptr i8, ptr %743, i64 8
  store ptr %744, ptr %18, align 8
  br label %745

745:
  %746 = phi ptr [ %740, %737 ], [ %743, %742 ]
  %747 = bitcast ptr %746 to ptr
  %748 = load ptr, ptr %747, align 8
  call void @__pocl_printf_ptr(ptr noundef nonnull %1, ptr noundef %748)
  br label %.backedge

749:
  %750 = phi ptr addrspace(2) [ %44, %43 ], [ %41, %__pocl_printf_putcf.exit ]
  %751 = load i32, ptr %34, align 8
  %752 = load i32, ptr %35, align 4
  %753 = icmp ult i32 %751, %752
  br i1 %753, label %754, label %__pocl_printf_putcf.exit.backedge

__pocl_printf_putcf.exit.backedge:
  br label %__pocl_printf_putcf.exit

754:
  %755 = load ptr, ptr %36, align 8
  %756 = add nuw i32 %751, 1
  store i32 %756, ptr %34, align 8
  %757 = zext i32 %751 to i64
  %758 = getelementptr inbounds i8, ptr %755, i64 %757
  store i8 %42, ptr %758, align 1
  br label %__pocl_printf_putcf.exit.backedge

.thread54.loopexit65.split.loop.exit93:
  %759 = select i1 %700, i32 39, i32 40
  br label %.thread54

.thread54.loopexit65.split.loop.exit99:
  %760 = select i1 %732, i32 49, i32 50
  br label %.thread54

.thread54:
  %761 = phi i32 [ %759, %.thread54.loopexit65.split.loop.exit93 ], [ %760, %.thread54.loopexit65.split.loop.exit99 ], [ 33, %144 ], [ 32, %.preheader ], [ 25, %.preheader56 ], [ 24, %95 ], [ 23, %.preheader58 ], [ 22, %76 ], [ 21, %71 ], [ 20, %66 ], [ 19, %61 ], [ 18, %56 ], [ 17, %43 ], [ 34, %155 ], [ 35, %164 ], [ 36, %165 ], [ 37, %672 ], [ 38, %696 ], [ 41, %726 ], [ 48, %729 ], [ 51, %.thread38.thread141 ], [ 34, %132 ]
  %762 = load i32, ptr %34, align 8
  %763 = load i32, ptr %35, align 4
  %764 = icmp ult i32 %762, %763
  br i1 %764, label %.split.i, label %__pocl_printf_puts.exit

.split.i:
  %765 = phi i32 [ %.pre4.i.3, %..split_crit_edge.i.3 ], [ %763, %.thread54 ]
  %766 = phi i32 [ %.pre.i.3, %..split_crit_edge.i.3 ], [ %762, %.thread54 ]
  %767 = phi i8 [ %801, %..split_crit_edge.i.3 ], [ 32, %.thread54 ]
  %768 = phi ptr [ %793, %..split_crit_edge.i.3 ], [ @.str.5, %.thread54 ]
  %769 = getelementptr inbounds i8, ptr %768, i64 1
  %770 = icmp ult i32 %766, %765
  br i1 %770, label %771, label %..split_crit_edge.i

771:
  %772 = load ptr, ptr %36, align 8
  %773 = add nuw i32 %766, 1
  store i32 %773, ptr %34, align 8
  %774 = zext i32 %766 to i64
  %775 = getelementptr inbounds i8, ptr %772, i64 %774
  store i8 %767, ptr %775, align 1
  br label %..split_crit_edge.i

..split_crit_edge.i:
  %.pre.i = load i32, ptr %34, align 8
  %.pre4.i = load i32, ptr %35, align 4
  %776 = getelementptr inbounds i8, ptr %768, i64 2
  %777 = icmp ult i32 %.pre.i, %.pre4.i
  br i1 %777, label %778, label %..split_crit_edge.i.1

778:
  %779 = load i8, ptr %769, align 1
  %780 = load ptr, ptr %36, align 8
  %781 = add nuw i32 %.pre.i, 1
  store i32 %781, ptr %34, align 8
  %782 = zext i32 %.pre.i to i64
  %783 = getelementptr inbounds i8, ptr %780, i64 %782
  store i8 %779, ptr %783, align 1
  br label %..split_crit_edge.i.1

..split_crit_edge.i.1:
  %.pre.i.1 = load i32, ptr %34, align 8
  %.pre4.i.1 = load i32, ptr %35, align 4
  %784 = getelementptr inbounds i8, ptr %768, i64 3
  %785 = icmp ult i32 %.pre.i.1, %.pre4.i.1
  br i1 %785, label %786, label %792

786:
  %787 = load i8, ptr %776, align 1
  %788 = load ptr, ptr %36, align 8
  %789 = add nuw i32 %.pre.i.1, 1
  store i32 %789, ptr %34, align 8
  %790 = zext i32 %.pre.i.1 to i64
  %791 = getelementptr inbounds i8, ptr %788, i64 %790
  store i8 %787, ptr %791, align 1
  br label %792

792:
  %exitcond.2 = icmp eq ptr %776, getelementptr inbounds ([32 x i8], ptr @.str.5, i64 0, i64 30)
  br i1 %exitcond.2, label %__pocl_printf_puts.exit.loopexit, label %..split_crit_edge.i.2

..split_crit_edge.i.2:
  %.pre.i.2 = load i32, ptr %34, align 8
  %.pre4.i.2 = load i32, ptr %35, align 4
  %793 = getelementptr inbounds i8, ptr %768, i64 4
  %794 = icmp ult i32 %.pre.i.2, %.pre4.i.2
  br i1 %794, label %795, label %..split_crit_edge.i.3

795:
  %796 = load i8, ptr %784, align 1
  %797 = load ptr, ptr %36, align 8
  %798 = add nuw i32 %.pre.i.2, 1
  store i32 %798, ptr %34, align 8
  %799 = zext i32 %.pre.i.2 to i64
  %800 = getelementptr inbounds i8, ptr %797, i64 %799
  store i8 %796, ptr %800, align 1
  br label %..split_crit_edge.i.3

..split_crit_edge.i.3:
  %801 = load i8, ptr %793, align 1
  %.pre.i.3 = load i32, ptr %34, align 8
  %.pre4.i.3 = load i32, ptr %35, align 4
  br label %.split.i

__pocl_printf_puts.exit.loopexit:
  %.pre = load i32, ptr %34, align 8
  %.pre136 = load i32, ptr %35, align 4
  br label %__pocl_printf_puts.exit

__pocl_printf_puts.exit:
  %802 = phi i32 [ %.pre136, %__pocl_printf_puts.exit.loopexit ], [ %763, %.thread54 ]
  %803 = phi i32 [ %.pre, %__pocl_printf_puts.exit.loopexit ], [ %762, %.thread54 ]
  %804 = trunc i32 %761 to i8
  %805 = and i8 %804, 7
  %806 = or i8 %805, 48
  %807 = icmp ult i32 %803, %802
  br i1 %807, label %808, label %__pocl_printf_putcf.exit30

808:
  %809 = lshr i32 %761, 4
  %810 = trunc i32 %809 to i8
  %811 = or i8 %810, 48
  %812 = load ptr, ptr %36, align 8
  %813 = add nuw i32 %803, 1
  store i32 %813, ptr %34, align 8
  %814 = zext i32 %803 to i64
  %815 = getelementptr inbounds i8, ptr %812, i64 %814
  store i8 %811, ptr %815, align 1
  %.pre137 = load i32, ptr %34, align 8
  %.pre138 = load i32, ptr %35, align 4
  br label %__pocl_printf_putcf.exit30

__pocl_printf_putcf.exit30:
  %816 = phi i32 [ %802, %__pocl_printf_puts.exit ], [ %.pre138, %808 ]
  %817 = phi i32 [ %803, %__pocl_printf_puts.exit ], [ %.pre137, %808 ]
  %818 = icmp ult i32 %817, %816
  br i1 %818, label %819, label %__pocl_printf_putcf.exit31

819:
  %820 = load ptr, ptr %36, align 8
  %821 = add nuw i32 %817, 1
  store i32 %821, ptr %34, align 8
  %822 = zext i32 %817 to i64
  %823 = getelementptr inbounds i8, ptr %820, i64 %822
  store i8 %806, ptr %823, align 1
  %.pre139 = load i32, ptr %34, align 8
  %.pre140 = load i32, ptr %35, align 4
  br label %__pocl_printf_putcf.exit31

__pocl_printf_putcf.exit31:
  %824 = phi i32 [ %816, %__pocl_printf_putcf.exit30 ], [ %.pre140, %819 ]
  %825 = phi i32 [ %817, %__pocl_printf_putcf.exit30 ], [ %.pre139, %819 ]
  %826 = icmp ult i32 %825, %824
  br i1 %826, label %827, label %__pocl_printf_putcf.exit32

827:
  %828 = load ptr, ptr %36, align 8
  %829 = add nuw i32 %825, 1
  store i32 %829, ptr %34, align 8
  %830 = zext i32 %825 to i64
  %831 = getelementptr inbounds i8, ptr %828, i64 %830
  store i8 10, ptr %831, align 1
  br label %__pocl_printf_putcf.exit32

__pocl_printf_putcf.exit32:
  %832 = phi i32 [ -1, %__pocl_printf_putcf.exit31 ], [ -1, %827 ], [ 0, %__pocl_printf_putcf.exit ]
  call void @llvm.lifetime.end.p0(ptr %4)
  ret i32 %832
}

define void @__pocl_printf_ptr(ptr noundef %0, ptr noundef %1) local_unnamed_addr {
  %3 = alloca [64 x i8], align 16
  %4 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  store i32 16, ptr %4, align 8
  %5 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %6 = load i8, ptr %5, align 4
  %7 = and i8 %6, 85
  %8 = or i8 %7, -126
  store i8 %8, ptr %5, align 4
  %9 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %3)
  %10 = icmp eq ptr %1, null
  br i1 %10, label %.thread6, label %11

11:
  %12 = ptrtoint ptr %1 to i64
  br label %13

13:
  %14 = phi i64 [ %24, %13 ], [ 0, %11 ]
  %15 = phi i64 [ %18, %13 ], [ %12, %11 ]
  %16 = trunc i64 %15 to i32
  %17 = and i32 %16, 15
  %18 = lshr i64 %15, 4
  %19 = icmp ult i32 %17, 10
  %20 = or i32 %17, 48
  %21 = add nuw nsw i32 %17, 87
  %22 = select i1 %19, i32 %20, i32 %21
  %23 = trunc i32 %22 to i8
  %24 = add nuw nsw i64 %14, 1
  %25 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %14
  store i8 %23, ptr %25, align 1
  %26 = icmp ult i64 %15, 16
  br i1 %26, label %27, label %13

27:
  %28 = trunc i64 %24 to i32
  %29 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %30 = load i32, ptr %29, align 8
  %31 = icmp sgt i32 %30, 0
  %32 = icmp ugt i32 %30, %28
  %33 = select i1 %31, i1 %32, i1 false
  br i1 %33, label %.thread, label %49

.thread6:
  %34 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %35 = load i32, ptr %34, align 8
  %36 = icmp sgt i32 %35, 0
  br i1 %36, label %.thread, label %.thread7

.thread7:
  %37 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %38 = load ptr, ptr %37, align 8
  br label %.loopexit

.thread:
  %39 = phi i32 [ %35, %.thread6 ], [ %30, %27 ]
  %40 = phi i32 [ 0, %.thread6 ], [ %28, %27 ]
  %41 = zext i32 %40 to i64
  %42 = getelementptr [64 x i8], ptr %3, i64 0, i64 %41
  %43 = xor i32 %40, -1
  %44 = add i32 %39, %43
  %45 = zext i32 %44 to i64
  %46 = add nuw nsw i64 %45, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %42, i8 48, i64 %46, i1 false) #37
  %47 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %48 = load ptr, ptr %47, align 8
  br label %53

49:
  %50 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %51 = load ptr, ptr %50, align 8
  %52 = icmp eq i32 %28, 0
  br i1 %52, label %.loopexit, label %53

53:
  %54 = phi ptr [ %48, %.thread ], [ %51, %49 ]
  %55 = phi i32 [ %39, %.thread ], [ %28, %49 ]
  %56 = zext i32 %55 to i64
  %min.iters.check = icmp ult i32 %55, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %56, 4294967264
  %ind.end = and i64 %56, 31
  %ind.end11 = getelementptr i8, ptr %54, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %54, i64 %index
  %57 = xor i64 %index, -1
  %58 = add i64 %57, %56
  %59 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %58
  %60 = getelementptr inbounds i8, ptr %59, i64 -31
  %61 = bitcast ptr %60 to ptr
  %wide.load = load <32 x i8>, ptr %61, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %62 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %62, align 1
  %index.next = add nuw i64 %index, 32
  %63 = icmp eq i64 %index.next, %n.vec
  br i1 %63, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %56
  br i1 %cmp.n, label %.loopexit, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph = phi i64 [ %56, %53 ], [ %ind.end, %middle.block ]
  %.ph12 = phi ptr [ %54, %53 ], [ %ind.end11, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %64 = phi i64 [ %66, %scalar.ph ], [ %.ph, %scalar.ph.preheader ]
  %65 = phi ptr [ %69, %scalar.ph ], [ %.ph12, %scalar.ph.preheader ]
  %66 = add nsw i64 %64, -1
  %67 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %66
  %68 = load i8, ptr %67, align 1
  %69 = getelementptr inbounds i8, ptr %65, i64 1
  store i8 %68, ptr %65, align 1
  %70 = icmp eq i64 %66, 0
  br i1 %70, label %.loopexit, label %scalar.ph

.loopexit:
  %71 = phi ptr [ %51, %49 ], [ %38, %.thread7 ], [ %ind.end11, %middle.block ], [ %69, %scalar.ph ]
  store i8 0, ptr %71, align 1
  call void @llvm.lifetime.end.p0(ptr %3)
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  ret void
}

define void @__pocl_printf_putchw(ptr noundef %0) local_unnamed_addr {
  %2 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 5
  %3 = load i32, ptr %2, align 4
  %4 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %5 = load i8, ptr %4, align 4
  %6 = and i8 %5, 2
  %7 = icmp eq i8 %6, 0
  %8 = and i8 %5, -126
  %9 = icmp eq i8 %8, -126
  br i1 %9, label %10, label %14

10:
  %11 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  %12 = load i32, ptr %11, align 8
  %13 = icmp eq i32 %12, 16
  br label %14

14:
  %15 = phi i1 [ false, %1 ], [ %13, %10 ]
  %16 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %17 = load ptr, ptr %16, align 8
  %18 = load i8, ptr %17, align 1
  %19 = icmp eq i8 %18, 48
  %20 = select i1 %19, i1 true, i1 %7
  br i1 %20, label %25, label %21

21:
  %22 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  %23 = load i32, ptr %22, align 8
  %24 = icmp eq i32 %23, 8
  br label %25

25:
  %26 = phi i1 [ false, %14 ], [ %24, %21 ]
  %27 = and i8 %5, 48
  %28 = icmp eq i8 %27, 0
  %29 = and i8 %5, 96
  %30 = icmp eq i8 %29, 64
  %31 = icmp ne i8 %18, 0
  %32 = icmp sgt i32 %3, 0
  %33 = select i1 %31, i1 %32, i1 false
  br i1 %33, label %.preheader, label %.loopexit16

.preheader:
  %34 = phi ptr [ %36, %.preheader ], [ %17, %25 ]
  %35 = phi i32 [ %37, %.preheader ], [ %3, %25 ]
  %36 = getelementptr inbounds i8, ptr %34, i64 1
  %37 = add nsw i32 %35, -1
  %38 = load i8, ptr %36, align 1
  %39 = icmp ne i8 %38, 0
  %40 = icmp ugt i32 %35, 1
  %41 = select i1 %39, i1 %40, i1 false
  br i1 %41, label %.preheader, label %.loopexit16

.loopexit16:
  %42 = phi i32 [ %3, %25 ], [ %37, %.preheader ]
  %43 = xor i1 %28, true
  %44 = sext i1 %43 to i32
  %45 = sext i1 %30 to i32
  %46 = add nsw i32 %45, %44
  %47 = add i32 %46, %42
  %48 = add nsw i32 %47, -2
  %49 = select i1 %15, i32 %48, i32 %47
  %50 = sext i1 %26 to i32
  %51 = add nsw i32 %49, %50
  %52 = and i8 %5, 5
  %53 = icmp eq i8 %52, 0
  br i1 %53, label %54, label %.loopexit15

54:
  %55 = add nsw i32 %51, -1
  %56 = icmp sgt i32 %51, 0
  br i1 %56, label %57, label %.loopexit15

57:
  %58 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %59 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %60 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %61 = load i32, ptr %58, align 8
  %62 = load i32, ptr %59, align 4
  %63 = icmp ult i32 %61, %62
  br i1 %63, label %.split, label %.loopexit15

.split:
  %64 = phi i32 [ %.pre24, %..split_crit_edge ], [ %62, %57 ]
  %65 = phi i32 [ %.pre, %..split_crit_edge ], [ %61, %57 ]
  %66 = phi i32 [ %75, %..split_crit_edge ], [ %55, %57 ]
  %67 = icmp ult i32 %65, %64
  br i1 %67, label %68, label %73

68:
  %69 = load ptr, ptr %60, align 8
  %70 = add nuw i32 %65, 1
  store i32 %70, ptr %58, align 8
  %71 = zext i32 %65 to i64
  %72 = getelementptr inbounds i8, ptr %69, i64 %71
  store i8 32, ptr %72, align 1
  br label %73

73:
  %74 = icmp sgt i32 %66, 0
  br i1 %74, label %..split_crit_edge, label %.loopexit15

..split_crit_edge:
  %75 = add nsw i32 %66, -1
  %.pre = load i32, ptr %58, align 8
  %.pre24 = load i32, ptr %59, align 4
  br label %.split

.loopexit15:
  %76 = phi i32 [ %51, %.loopexit16 ], [ %55, %54 ], [ -1, %57 ], [ -1, %73 ]
  br i1 %30, label %77, label %89

77:
  %78 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %79 = load i32, ptr %78, align 8
  %80 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %81 = load i32, ptr %80, align 4
  %82 = icmp ult i32 %79, %81
  br i1 %82, label %83, label %89

83:
  %84 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %85 = load ptr, ptr %84, align 8
  %86 = add nuw i32 %79, 1
  store i32 %86, ptr %78, align 8
  %87 = zext i32 %79 to i64
  %88 = getelementptr inbounds i8, ptr %85, i64 %87
  store i8 32, ptr %88, align 1
  br label %89

89:
  br i1 %28, label %106, label %90

90:
  %91 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %92 = load i32, ptr %91, align 8
  %93 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %94 = load i32, ptr %93, align 4
  %95 = icmp ult i32 %92, %94
  br i1 %95, label %96, label %106

96:
  %97 = load i8, ptr %4, align 4
  %98 = and i8 %97, 32
  %99 = icmp eq i8 %98, 0
  %100 = select i1 %99, i8 43, i8 45
  %101 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %102 = load ptr, ptr %101, align 8
  %103 = add nuw i32 %92, 1
  store i32 %103, ptr %91, align 8
  %104 = zext i32 %92 to i64
  %105 = getelementptr inbounds i8, ptr %102, i64 %104
  store i8 %100, ptr %105, align 1
  br label %106

106:
  br i1 %15, label %107, label %128

107:
  %108 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %109 = load i32, ptr %108, align 8
  %110 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %111 = load i32, ptr %110, align 4
  %112 = icmp ult i32 %109, %111
  br i1 %112, label %113, label %119

113:
  %114 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %115 = load ptr, ptr %114, align 8
  %116 = add nuw i32 %109, 1
  store i32 %116, ptr %108, align 8
  %117 = zext i32 %109 to i64
  %118 = getelementptr inbounds i8, ptr %115, i64 %117
  store i8 48, ptr %118, align 1
  %.pre25 = load i32, ptr %108, align 8
  %.pre26 = load i32, ptr %110, align 4
  br label %119

119:
  %120 = phi i32 [ %111, %107 ], [ %.pre26, %113 ]
  %121 = phi i32 [ %109, %107 ], [ %.pre25, %113 ]
  %122 = icmp ult i32 %121, %120
  br i1 %122, label %123, label %144

123:
  %124 = load i8, ptr %4, align 4
  %125 = and i8 %124, 8
  %126 = icmp eq i8 %125, 0
  %127 = select i1 %126, i8 120, i8 88
  br label %135

128:
  br i1 %26, label %129, label %144

129:
  %130 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %131 = load i32, ptr %130, align 8
  %132 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %133 = load i32, ptr %132, align 4
  %134 = icmp ult i32 %131, %133
  br i1 %134, label %135, label %144

135:
  %136 = phi i32 [ %121, %123 ], [ %131, %129 ]
  %137 = phi ptr [ %108, %123 ], [ %130, %129 ]
  %138 = phi i8 [ %127, %123 ], [ 48, %129 ]
  %139 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %140 = load ptr, ptr %139, align 8
  %141 = add nuw i32 %136, 1
  store i32 %141, ptr %137, align 8
  %142 = zext i32 %136 to i64
  %143 = getelementptr inbounds i8, ptr %140, i64 %142
  store i8 %138, ptr %143, align 1
  br label %144

144:
  %145 = load i8, ptr %4, align 4
  %146 = and i8 %145, 1
  %147 = icmp eq i8 %146, 0
  br i1 %147, label %.loopexit14, label %148

148:
  %149 = add nsw i32 %76, -1
  %150 = icmp sgt i32 %76, 0
  br i1 %150, label %151, label %.loopexit14

151:
  %152 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %153 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %154 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %155 = load i32, ptr %152, align 8
  %156 = load i32, ptr %153, align 4
  %157 = icmp ult i32 %155, %156
  br i1 %157, label %.split17, label %.loopexit14

.split17:
  %158 = phi i32 [ %.pre28, %..split17_crit_edge ], [ %156, %151 ]
  %159 = phi i32 [ %.pre27, %..split17_crit_edge ], [ %155, %151 ]
  %160 = phi i32 [ %169, %..split17_crit_edge ], [ %149, %151 ]
  %161 = icmp ult i32 %159, %158
  br i1 %161, label %162, label %167

162:
  %163 = load ptr, ptr %154, align 8
  %164 = add nuw i32 %159, 1
  store i32 %164, ptr %152, align 8
  %165 = zext i32 %159 to i64
  %166 = getelementptr inbounds i8, ptr %163, i64 %165
  store i8 48, ptr %166, align 1
  br label %167

167:
  %168 = icmp sgt i32 %160, 0
  br i1 %168, label %..split17_crit_edge, label %.loopexit14

..split17_crit_edge:
  %169 = add nsw i32 %160, -1
  %.pre27 = load i32, ptr %152, align 8
  %.pre28 = load i32, ptr %153, align 4
  br label %.split17

.loopexit14:
  %170 = phi i32 [ %76, %144 ], [ %149, %148 ], [ -1, %151 ], [ -1, %167 ]
  %171 = load ptr, ptr %16, align 8
  %172 = load i8, ptr %171, align 1
  %173 = icmp eq i8 %172, 0
  br i1 %173, label %.loopexit13, label %174

174:
  %175 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %176 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %177 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %178 = load i32, ptr %175, align 8
  %179 = load i32, ptr %176, align 4
  %180 = icmp ult i32 %178, %179
  br i1 %180, label %.split18, label %.loopexit13

.split18:
  %181 = phi i32 [ %.pre30, %..split18_crit_edge ], [ %179, %174 ]
  %182 = phi i32 [ %.pre29, %..split18_crit_edge ], [ %178, %174 ]
  %183 = phi i8 [ %193, %..split18_crit_edge ], [ %172, %174 ]
  %184 = phi ptr [ %185, %..split18_crit_edge ], [ %171, %174 ]
  %185 = getelementptr inbounds i8, ptr %184, i64 1
  %186 = icmp ult i32 %182, %181
  br i1 %186, label %187, label %192

187:
  %188 = load ptr, ptr %177, align 8
  %189 = add nuw i32 %182, 1
  store i32 %189, ptr %175, align 8
  %190 = zext i32 %182 to i64
  %191 = getelementptr inbounds i8, ptr %188, i64 %190
  store i8 %183, ptr %191, align 1
  br label %192

192:
  %193 = load i8, ptr %185, align 1
  %194 = icmp eq i8 %193, 0
  br i1 %194, label %.loopexit13, label %..split18_crit_edge

..split18_crit_edge:
  %.pre29 = load i32, ptr %175, align 8
  %.pre30 = load i32, ptr %176, align 4
  br label %.split18

.loopexit13:
  %195 = load i8, ptr %4, align 4
  %196 = and i8 %195, 5
  %197 = icmp eq i8 %196, 4
  %198 = icmp sgt i32 %170, 0
  %199 = select i1 %197, i1 %198, i1 false
  br i1 %199, label %200, label %.loopexit

200:
  %201 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %202 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %203 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %204 = load i32, ptr %201, align 8
  %205 = load i32, ptr %202, align 4
  %206 = icmp ult i32 %204, %205
  br i1 %206, label %.split19, label %.loopexit

.split19:
  %207 = phi i32 [ %.pre32, %..split19_crit_edge ], [ %205, %200 ]
  %208 = phi i32 [ %.pre31, %..split19_crit_edge ], [ %204, %200 ]
  %209 = phi i32 [ %210, %..split19_crit_edge ], [ %170, %200 ]
  %210 = add nsw i32 %209, -1
  %211 = icmp ult i32 %208, %207
  br i1 %211, label %212, label %217

212:
  %213 = load ptr, ptr %203, align 8
  %214 = add nuw i32 %208, 1
  store i32 %214, ptr %201, align 8
  %215 = zext i32 %208 to i64
  %216 = getelementptr inbounds i8, ptr %213, i64 %215
  store i8 32, ptr %216, align 1
  br label %217

217:
  %218 = icmp ugt i32 %209, 1
  br i1 %218, label %..split19_crit_edge, label %.loopexit

..split19_crit_edge:
  %.pre31 = load i32, ptr %201, align 8
  %.pre32 = load i32, ptr %202, align 4
  br label %.split19

.loopexit:
  ret void
}

define void @__pocl_printf_puts_ljust(ptr noundef captures(none) %0, ptr noundef readonly captures(none) %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr {
  %5 = icmp ult i64 %3, 9223372036854775807
  %6 = select i1 %5, i64 %3, i64 9223372036854775807
  %7 = load i8, ptr %1, align 1
  %8 = icmp eq i8 %7, 0
  br i1 %8, label %.loopexit7, label %9

9:
  %10 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %11 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %12 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  br label %19

.loopexit7:
  %13 = phi i64 [ 0, %4 ], [ %35, %34 ]
  %14 = icmp ult i64 %13, %2
  br i1 %14, label %15, label %.loopexit

15:
  %16 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %17 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %18 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  br label %38

19:
  %20 = phi i8 [ %7, %9 ], [ %36, %34 ]
  %21 = phi ptr [ %1, %9 ], [ %23, %34 ]
  %22 = phi i64 [ 0, %9 ], [ %35, %34 ]
  %23 = getelementptr inbounds i8, ptr %21, i64 1
  %24 = icmp ult i64 %22, %6
  br i1 %24, label %25, label %34

25:
  %26 = load i32, ptr %10, align 8
  %27 = load i32, ptr %11, align 4
  %28 = icmp ult i32 %26, %27
  br i1 %28, label %29, label %34

29:
  %30 = load ptr, ptr %12, align 8
  %31 = add nuw i32 %26, 1
  store i32 %31, ptr %10, align 8
  %32 = zext i32 %26 to i64
  %33 = getelementptr inbounds i8, ptr %30, i64 %32
  store i8 %20, ptr %33, align 1
  br label %34

34:
  %35 = add i64 %22, 1
  %36 = load i8, ptr %23, align 1
  %37 = icmp eq i8 %36, 0
  br i1 %37, label %.loopexit7, label %19

38:
  %39 = phi i64 [ %13, %15 ], [ %51, %50 ]
  %40 = icmp ult i64 %39, %6
  br i1 %40, label %41, label %50

41:
  %42 = load i32, ptr %16, align 8
  %43 = load i32, ptr %17, align 4
  %44 = icmp ult i32 %42, %43
  br i1 %44, label %45, label %50

45:
  %46 = load ptr, ptr %18, align 8
  %47 = add nuw i32 %42, 1
  store i32 %47, ptr %16, align 8
  %48 = zext i32 %42 to i64
  %49 = getelementptr inbounds i8, ptr %46, i64 %48
  store i8 32, ptr %49, align 1
  br label %50

50:
  %51 = add nuw i64 %39, 1
  %52 = icmp eq i64 %51, %2
  br i1 %52, label %.loopexit, label %38

.loopexit:
  ret void
}

define void @__pocl_printf_puts_rjust(ptr noundef captures(none) %0, ptr noundef readonly captures(none) %1, i64 noundef %2, i64 noundef %3) local_unnamed_addr {
  %5 = icmp ult i64 %3, 9223372036854775807
  %6 = select i1 %5, i64 %3, i64 9223372036854775807
  %7 = load i8, ptr %1, align 1
  %8 = icmp eq i8 %7, 0
  br i1 %8, label %.loopexit9, label %.preheader

.loopexit9:
  %9 = phi i64 [ 0, %4 ], [ %19, %.preheader ]
  %10 = icmp ult i64 %9, %2
  br i1 %10, label %11, label %.loopexit8

11:
  %12 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %13 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %14 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  %15 = sub i64 %2, %9
  br label %29

.preheader:
  %16 = phi ptr [ %18, %.preheader ], [ %1, %4 ]
  %17 = phi i64 [ %19, %.preheader ], [ 0, %4 ]
  %18 = getelementptr inbounds i8, ptr %16, i64 1
  %19 = add i64 %17, 1
  %20 = load i8, ptr %18, align 1
  %21 = icmp eq i8 %20, 0
  br i1 %21, label %.loopexit9, label %.preheader

.loopexit8.loopexit:
  %.pre = load i8, ptr %1, align 1
  br label %.loopexit8

.loopexit8:
  %22 = phi i8 [ %7, %.loopexit9 ], [ %.pre, %.loopexit8.loopexit ]
  %23 = phi i64 [ 0, %.loopexit9 ], [ %15, %.loopexit8.loopexit ]
  %24 = icmp eq i8 %22, 0
  br i1 %24, label %.loopexit, label %25

25:
  %26 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 2
  %27 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 3
  %28 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 1
  br label %44

29:
  %30 = phi i64 [ 0, %11 ], [ %42, %41 ]
  %31 = icmp ult i64 %30, %6
  br i1 %31, label %32, label %41

32:
  %33 = load i32, ptr %12, align 8
  %34 = load i32, ptr %13, align 4
  %35 = icmp ult i32 %33, %34
  br i1 %35, label %36, label %41

36:
  %37 = load ptr, ptr %14, align 8
  %38 = add nuw i32 %33, 1
  store i32 %38, ptr %12, align 8
  %39 = zext i32 %33 to i64
  %40 = getelementptr inbounds i8, ptr %37, i64 %39
  store i8 32, ptr %40, align 1
  br label %41

41:
  %42 = add nuw i64 %30, 1
  %43 = icmp eq i64 %42, %15
  br i1 %43, label %.loopexit8.loopexit, label %29

44:
  %45 = phi i8 [ %22, %25 ], [ %61, %59 ]
  %46 = phi ptr [ %1, %25 ], [ %48, %59 ]
  %47 = phi i64 [ %23, %25 ], [ %60, %59 ]
  %48 = getelementptr inbounds i8, ptr %46, i64 1
  %49 = icmp ult i64 %47, %6
  br i1 %49, label %50, label %59

50:
  %51 = load i32, ptr %26, align 8
  %52 = load i32, ptr %27, align 4
  %53 = icmp ult i32 %51, %52
  br i1 %53, label %54, label %59

54:
  %55 = load ptr, ptr %28, align 8
  %56 = add nuw i32 %51, 1
  store i32 %56, ptr %26, align 8
  %57 = zext i32 %51 to i64
  %58 = getelementptr inbounds i8, ptr %55, i64 %57
  store i8 %45, ptr %58, align 1
  br label %59

59:
  %60 = add i64 %47, 1
  %61 = load i8, ptr %48, align 1
  %62 = icmp eq i8 %61, 0
  br i1 %62, label %.loopexit, label %44

.loopexit:
  ret void
}

define void @__pocl_printf_ulong(ptr noundef %0, i64 noundef %1) local_unnamed_addr {
  %3 = alloca [64 x i8], align 16
  %4 = alloca [64 x i8], align 16
  %5 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 6
  %6 = load i32, ptr %5, align 8
  %7 = icmp eq i32 %6, 16
  br i1 %7, label %8, label %79

8:
  %9 = icmp eq i64 %1, 0
  %10 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 7, i32 0
  %11 = load i8, ptr %10, align 4
  %12 = select i1 %9, i8 0, i8 -128
  %13 = and i8 %11, 127
  %14 = or i8 %13, %12
  store i8 %14, ptr %10, align 4
  %15 = getelementptr inbounds [64 x i8], ptr %4, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %4)
  br i1 %9, label %.thread17, label %16

16:
  %17 = and i8 %11, 8
  %18 = icmp eq i8 %17, 0
  %19 = select i1 %18, i32 87, i32 55
  br label %20

20:
  %21 = phi i64 [ 0, %16 ], [ %31, %20 ]
  %22 = phi i64 [ %1, %16 ], [ %25, %20 ]
  %23 = trunc i64 %22 to i32
  %24 = and i32 %23, 15
  %25 = lshr i64 %22, 4
  %26 = icmp ult i32 %24, 10
  %27 = or i32 %24, 48
  %28 = add nuw nsw i32 %24, %19
  %29 = select i1 %26, i32 %27, i32 %28
  %30 = trunc i32 %29 to i8
  %31 = add nuw nsw i64 %21, 1
  %32 = getelementptr inbounds [64 x i8], ptr %4, i64 0, i64 %21
  store i8 %30, ptr %32, align 1
  %33 = icmp ult i64 %22, 16
  br i1 %33, label %34, label %20

34:
  %35 = trunc i64 %31 to i32
  %36 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %37 = load i32, ptr %36, align 8
  %38 = icmp sgt i32 %37, 0
  %39 = icmp ugt i32 %37, %35
  %40 = select i1 %38, i1 %39, i1 false
  br i1 %40, label %.thread, label %56

.thread17:
  %41 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %42 = load i32, ptr %41, align 8
  %43 = icmp sgt i32 %42, 0
  br i1 %43, label %.thread, label %.thread18

.thread18:
  %44 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %45 = load ptr, ptr %44, align 8
  br label %.loopexit

.thread:
  %46 = phi i32 [ %42, %.thread17 ], [ %37, %34 ]
  %47 = phi i32 [ 0, %.thread17 ], [ %35, %34 ]
  %48 = zext i32 %47 to i64
  %49 = getelementptr [64 x i8], ptr %4, i64 0, i64 %48
  %50 = xor i32 %47, -1
  %51 = add i32 %46, %50
  %52 = zext i32 %51 to i64
  %53 = add nuw nsw i64 %52, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %49, i8 48, i64 %53, i1 false) #37
  %54 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %55 = load ptr, ptr %54, align 8
  br label %60

56:
  %57 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %58 = load ptr, ptr %57, align 8
  %59 = icmp eq i32 %35, 0
  br i1 %59, label %.loopexit, label %60

60:
  %61 = phi ptr [ %55, %.thread ], [ %58, %56 ]
  %62 = phi i32 [ %46, %.thread ], [ %35, %56 ]
  %63 = zext i32 %62 to i64
  %min.iters.check31 = icmp ult i32 %62, 32
  br i1 %min.iters.check31, label %scalar.ph29.preheader, label %vector.ph32

vector.ph32:
  %n.vec34 = and i64 %63, 4294967264
  %ind.end36 = and i64 %63, 31
  %ind.end38 = getelementptr i8, ptr %61, i64 %n.vec34
  br label %vector.body30

vector.body30:
  %index40 = phi i64 [ 0, %vector.ph32 ], [ %index.next45, %vector.body30 ]
  %next.gep42 = getelementptr i8, ptr %61, i64 %index40
  %64 = xor i64 %index40, -1
  %65 = add i64 %64, %63
  %66 = getelementptr inbounds [64 x i8], ptr %4, i64 0, i64 %65
  %67 = getelementptr inbounds i8, ptr %66, i64 -31
  %68 = bitcast ptr %67 to ptr
  %wide.load43 = load <32 x i8>, ptr %68, align 1
  %reverse44 = shufflevector <32 x i8> %wide.load43, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %69 = bitcast ptr %next.gep42 to ptr
  store <32 x i8> %reverse44, ptr %69, align 1
  %index.next45 = add nuw i64 %index40, 32
  %70 = icmp eq i64 %index.next45, %n.vec34
  br i1 %70, label %middle.block28, label %vector.body30

middle.block28:
  %cmp.n39 = icmp eq i64 %n.vec34, %63
  br i1 %cmp.n39, label %.loopexit, label %scalar.ph29.preheader

scalar.ph29.preheader:
  %.ph = phi i64 [ %63, %60 ], [ %ind.end36, %middle.block28 ]
  %.ph46 = phi ptr [ %61, %60 ], [ %ind.end38, %middle.block28 ]
  br label %scalar.ph29

scalar.ph29:
  %71 = phi i64 [ %73, %scalar.ph29 ], [ %.ph, %scalar.ph29.preheader ]
  %72 = phi ptr [ %76, %scalar.ph29 ], [ %.ph46, %scalar.ph29.preheader ]
  %73 = add nsw i64 %71, -1
  %74 = getelementptr inbounds [64 x i8], ptr %4, i64 0, i64 %73
  %75 = load i8, ptr %74, align 1
  %76 = getelementptr inbounds i8, ptr %72, i64 1
  store i8 %75, ptr %72, align 1
  %77 = icmp eq i64 %73, 0
  br i1 %77, label %.loopexit, label %scalar.ph29

.loopexit:
  %78 = phi ptr [ %58, %56 ], [ %45, %.thread18 ], [ %ind.end38, %middle.block28 ], [ %76, %scalar.ph29 ]
  store i8 0, ptr %78, align 1
  call void @llvm.lifetime.end.p0(ptr %4)
  br label %138

79:
  %80 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 0
  call void @llvm.lifetime.start.p0(ptr %3)
  %81 = icmp eq i64 %1, 0
  br i1 %81, label %.loopexit10.thread, label %82

82:
  %83 = zext i32 %6 to i64
  br label %84

84:
  %85 = phi i64 [ %1, %82 ], [ %89, %84 ]
  %86 = phi i32 [ 0, %82 ], [ %91, %84 ]
  %87 = urem i64 %85, %83
  %88 = trunc i64 %87 to i8
  %89 = udiv i64 %85, %83
  %90 = add i8 %88, 48
  %91 = add i32 %86, 1
  %92 = zext i32 %86 to i64
  %93 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %92
  store i8 %90, ptr %93, align 1
  %94 = icmp ult i64 %85, %83
  br i1 %94, label %.loopexit10, label %84

.loopexit10:
  %95 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %96 = load i32, ptr %95, align 8
  %97 = icmp sgt i32 %96, 0
  %98 = icmp ult i32 %91, %96
  %99 = select i1 %97, i1 %98, i1 false
  br i1 %99, label %.thread8, label %115

.loopexit10.thread:
  %100 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 4
  %101 = load i32, ptr %100, align 8
  %102 = icmp sgt i32 %101, 0
  br i1 %102, label %.thread8, label %.thread19

.thread19:
  %103 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %104 = load ptr, ptr %103, align 8
  br label %.loopexit9

.thread8:
  %105 = phi i32 [ %101, %.loopexit10.thread ], [ %96, %.loopexit10 ]
  %106 = phi i32 [ 0, %.loopexit10.thread ], [ %91, %.loopexit10 ]
  %107 = zext i32 %106 to i64
  %108 = getelementptr [64 x i8], ptr %3, i64 0, i64 %107
  %109 = xor i32 %106, -1
  %110 = add i32 %105, %109
  %111 = zext i32 %110 to i64
  %112 = add nuw nsw i64 %111, 1
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 1 dereferenceable(1) %108, i8 48, i64 %112, i1 false) #37
  %113 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %114 = load ptr, ptr %113, align 8
  br label %119

115:
  %116 = getelementptr inbounds %struct.param_t, ptr %0, i64 0, i32 0
  %117 = load ptr, ptr %116, align 8
  %118 = icmp eq i32 %91, 0
  br i1 %118, label %.loopexit9, label %119

119:
  %120 = phi ptr [ %114, %.thread8 ], [ %117, %115 ]
  %121 = phi i32 [ %105, %.thread8 ], [ %91, %115 ]
  %122 = zext i32 %121 to i64
  %min.iters.check = icmp ult i32 %121, 32
  br i1 %min.iters.check, label %scalar.ph.preheader, label %vector.ph

vector.ph:
  %n.vec = and i64 %122, 4294967264
  %ind.end = and i64 %122, 31
  %ind.end27 = getelementptr i8, ptr %120, i64 %n.vec
  br label %vector.body

vector.body:
  %index = phi i64 [ 0, %vector.ph ], [ %index.next, %vector.body ]
  %next.gep = getelementptr i8, ptr %120, i64 %index
  %123 = xor i64 %index, -1
  %124 = add i64 %123, %122
  %125 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %124
  %126 = getelementptr inbounds i8, ptr %125, i64 -31
  %127 = bitcast ptr %126 to ptr
  %wide.load = load <32 x i8>, ptr %127, align 1
  %reverse = shufflevector <32 x i8> %wide.load, <32 x i8> poison, <32 x i32> <i32 31, i32 30, i32 29, i32 28, i32 27, i32 26, i32 25, i32 24, i32 23, i32 22, i32 21, i32 20, i32 19, i32 18, i32 17, i32 16, i32 15, i32 14, i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6, i32 5, i32 4, i32 3, i32 2, i32 1, i32 0>
  %128 = bitcast ptr %next.gep to ptr
  store <32 x i8> %reverse, ptr %128, align 1
  %index.next = add nuw i64 %index, 32
  %129 = icmp eq i64 %index.next, %n.vec
  br i1 %129, label %middle.block, label %vector.body

middle.block:
  %cmp.n = icmp eq i64 %n.vec, %122
  br i1 %cmp.n, label %.loopexit9, label %scalar.ph.preheader

scalar.ph.preheader:
  %.ph48 = phi i64 [ %122, %119 ], [ %ind.end, %middle.block ]
  %.ph49 = phi ptr [ %120, %119 ], [ %ind.end27, %middle.block ]
  br label %scalar.ph

scalar.ph:
  %130 = phi i64 [ %132, %scalar.ph ], [ %.ph48, %scalar.ph.preheader ]
  %131 = phi ptr [ %135, %scalar.ph ], [ %.ph49, %scalar.ph.preheader ]
  %132 = add nsw i64 %130, -1
  %133 = getelementptr inbounds [64 x i8], ptr %3, i64 0, i64 %132
  %134 = load i8, ptr %133, align 1
  %135 = getelementptr inbounds i8, ptr %131, i64 1
  store i8 %134, ptr %131, align 1
  %136 = icmp eq i64 %132, 0
  br i1 %136, label %.loopexit9, label %scalar.ph

.loopexit9:
  %137 = phi ptr [ %117, %115 ], [ %104, %.thread19 ], [ %ind.end27, %middle.block ], [ %135, %scalar.ph ]
  store i8 0, ptr %137, align 1
  call void @llvm.lifetime.end.p0(ptr %3)
  br label %138

138:
  tail call void @__pocl_printf_putchw(ptr noundef %0)
  ret void
}

define dso_local i32 @first_held(ptr noundef readonly captures(none) %s) local_unnamed_addr {
entry:
  %p = getelementptr inbounds %struct.Held, ptr %s, i64 0, i32 0
  %0 = load ptr, ptr %p, align 8
  %n = getelementptr inbounds %struct.Held, ptr %s, i64 0, i32 1
  %1 = load i32, ptr %n, align 8
  %idxprom = sext i32 %1 to i64
  %arrayidx = getelementptr inbounds i32, ptr %0, i64 %idxprom
  %2 = load i32, ptr %arrayidx, align 4
  ret i32 %2
}

define dso_local spir_kernel void @k_aliased(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %0 = xor i32 %conv, -1
  %sub1 = add i32 %0, %n
  %idxprom = sext i32 %sub1 to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %1 = load float, ptr %arrayidx, align 4
  %sext = shl i64 %call, 32
  %idxprom2 = ashr exact i64 %sext, 32
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %1, ptr %arrayidx3, align 4
  ret void
}

define dso_local spir_kernel void @k_atomic_histogram(ptr noundef readonly captures(none) %p, ptr noundef %c) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !61 !kernel_arg_base_type !61 !kernel_arg_type_qual !9 !kernel_arg_name !62 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %and = and i32 %0, 255
  %1 = zext i32 %and to i64
  %arrayidx2 = getelementptr inbounds i32, ptr %c, i64 %1
  %call3 = tail call i32 @_Z14_cl_atomic_incPU8CLglobalVi(ptr noundef %arrayidx2)
  ret void
}

define dso_local spir_kernel void @k_barrier_by_name(ptr noundef writeonly captures(none) %b, ptr noundef %c) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !61 !kernel_arg_base_type !61 !kernel_arg_type_qual !78 !kernel_arg_name !102 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %b, i64 %idxprom
  store i32 %conv, ptr %arrayidx, align 4
  %0 = ptrtoint ptr %c to i64
  tail call void @my_barrier_store(i64 noundef %0, i32 noundef %conv)
  ret void
}

define dso_local spir_kernel void @k_bit_reversal(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  br label %for.body

for.cond.cleanup:
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %idxprom2 = sext i32 %or to i64
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %0, ptr %arrayidx3, align 4
  ret void

for.body:
  %k.014 = phi i32 [ 0, %entry ], [ %inc, %for.body ]
  %r.013 = phi i32 [ 0, %entry ], [ %or, %for.body ]
  %shr12 = lshr i32 %conv, %k.014
  %and = and i32 %shr12, 1
  %sub = sub nuw nsw i32 11, %k.014
  %shl = shl nuw nsw i32 %and, %sub
  %or = or i32 %shl, %r.013
  %inc = add nuw nsw i32 %k.014, 1
  %exitcond.not = icmp eq i32 %inc, 12
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_blur(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %sub = add nsw i32 %h, -1
  %sub11 = add nsw i32 %w, -1
  br label %for.cond4.preheader

for.cond4.preheader:
  %j.047 = phi i32 [ -1, %entry ], [ %inc16, %for.cond.cleanup7 ]
  %s.046 = phi float [ 0.000000e+00, %entry ], [ %add14, %for.cond.cleanup7 ]
  %add = add nsw i32 %j.047, %conv2
  br label %for.body8

for.cond.cleanup:
  %cmp18 = icmp slt i32 %conv, %w
  %cmp20 = icmp slt i32 %conv2, %h
  %or.cond = select i1 %cmp18, i1 %cmp20, i1 false
  br i1 %or.cond, label %if.then, label %if.end

for.cond.cleanup7:
  %inc16 = add nsw i32 %j.047, 1
  %exitcond48.not = icmp eq i32 %inc16, 2
  br i1 %exitcond48.not, label %for.cond.cleanup, label %for.cond4.preheader

for.body8:
  %i.045 = phi i32 [ -1, %for.cond4.preheader ], [ %inc, %for.body8 ]
  %s.144 = phi float [ %s.046, %for.cond4.preheader ], [ %add14, %for.body8 ]
  %call9 = tail call i32 @_Z9_cl_clampiii(i32 noundef %add, i32 noundef 0, i32 noundef %sub)
  %mul = mul nsw i32 %call9, %w
  %add10 = add nsw i32 %i.045, %conv
  %call12 = tail call i32 @_Z9_cl_clampiii(i32 noundef %add10, i32 noundef 0, i32 noundef %sub11)
  %add13 = add nsw i32 %mul, %call12
  %idxprom = sext i32 %add13 to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %add14 = fadd float %s.144, %0
  %inc = add nsw i32 %i.045, 1
  %exitcond.not = icmp eq i32 %inc, 2
  br i1 %exitcond.not, label %for.cond.cleanup7, label %for.body8

if.then:
  %div = fdiv float %add14, 9.000000e+00, !fpmath !59
  %mul22 = mul nsw i32 %conv2, %w
  %add23 = add nsw i32 %mul22, %conv
  %idxprom24 = sext i32 %add23 to i64
  %arrayidx25 = getelementptr inbounds float, ptr %b, i64 %idxprom24
  store float %div, ptr %arrayidx25, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_bytes(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !41 !kernel_arg_base_type !41 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i8, ptr %a, i64 %idxprom
  %0 = load i8, ptr %arrayidx, align 1
  %1 = xor i8 %0, 90
  %arrayidx4 = getelementptr inbounds i8, ptr %b, i64 %idxprom
  store i8 %1, ptr %arrayidx4, align 1
  ret void
}

define dso_local spir_kernel void @k_colliding_scatter(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx2 = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %1 = load i32, ptr %arrayidx2, align 4
  %and = and i32 %1, 63
  %2 = zext i32 %and to i64
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %2
  store float %0, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_columns(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %cmp12 = icmp sgt i32 %h, 0
  br i1 %cmp12, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = sext i32 %w to i64
  %sext17 = shl i64 %call, 32
  %1 = ashr exact i64 %sext17, 32
  %wide.trip.count = zext i32 %h to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %2 = load float, ptr %arrayidx, align 4
  %3 = trunc i64 %indvars.iv to i32
  %conv2 = sitofp i32 %3 to float
  %add = fadd float %2, %conv2
  %4 = mul nsw i64 %indvars.iv, %0
  %5 = add nsw i64 %4, %1
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %5
  store float %add, ptr %arrayidx5, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_copy(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_csr(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %sext18 = add i64 %sext, 4294967296
  %idxprom1 = ashr exact i64 %sext18, 32
  %arrayidx2 = getelementptr inbounds i32, ptr %p, i64 %idxprom1
  %1 = load i32, ptr %arrayidx2, align 4
  %cmp19 = icmp slt i32 %0, %1
  br i1 %cmp19, label %for.body.preheader, label %for.cond.cleanup

for.body.preheader:
  %2 = sext i32 %0 to i64
  %wide.trip.count = sext i32 %1 to i64
  br label %for.body

for.cond.cleanup:
  %s.0.lcssa = phi float [ 0.000000e+00, %entry ], [ %add6, %for.body ]
  %arrayidx8 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %s.0.lcssa, ptr %arrayidx8, align 4
  ret void

for.body:
  %indvars.iv = phi i64 [ %2, %for.body.preheader ], [ %indvars.iv.next, %for.body ]
  %s.020 = phi float [ 0.000000e+00, %for.body.preheader ], [ %add6, %for.body ]
  %arrayidx5 = getelementptr inbounds float, ptr %a, i64 %indvars.iv
  %3 = load float, ptr %arrayidx5, align 4
  %add6 = fadd float %s.020, %3
  %indvars.iv.next = add nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_data_dependent_end(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %cmp.not12 = icmp slt i32 %0, 0
  br i1 %cmp.not12, label %for.cond.cleanup, label %for.body.lr.ph

for.body.lr.ph:
  %arrayidx3 = getelementptr inbounds float, ptr %a, i64 %idxprom
  %sext16 = shl i64 %call, 32
  %1 = ashr exact i64 %sext16, 32
  %2 = add nuw i32 %0, 1
  %wide.trip.count = zext i32 %2 to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %3 = load float, ptr %arrayidx3, align 4
  %4 = add nsw i64 %indvars.iv, %1
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %4
  store float %3, ptr %arrayidx5, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_early_return(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !39 !kernel_arg_base_type !39 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = zext i32 %n to i64
  %cmp.not = icmp ult i64 %call, %conv
  br i1 %cmp.not, label %if.end, label %cleanup

if.end:
  %sub = add i32 %n, -1
  %conv2 = zext i32 %sub to i64
  %sub3 = sub i64 %conv2, %call
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %sub3
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %call
  store float %0, ptr %arrayidx4, align 4
  br label %cleanup

cleanup:
  ret void
}

define dso_local spir_kernel void @k_gather(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %idxprom1 = sext i32 %0 to i64
  %arrayidx2 = getelementptr inbounds float, ptr %a, i64 %idxprom1
  %1 = load float, ptr %arrayidx2, align 4
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %1, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_gather_in_place(ptr noundef captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !84 !kernel_arg_base_type !84 !kernel_arg_type_qual !85 !kernel_arg_name !86 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %idxprom1 = sext i32 %0 to i64
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  %1 = load float, ptr %arrayidx2, align 4
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %1, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_global_size_stride(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %call1 = tail call i64 @_Z15get_global_sizej(i32 noundef 0)
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %call
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %call
  store float %0, ptr %arrayidx2, align 4
  %1 = load float, ptr %arrayidx, align 4
  %fneg = fneg float %1
  %add = add i64 %call1, %call
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %add
  store float %fneg, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_grid_stride(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %x.015 = trunc i64 %call to i32
  %cmp16 = icmp slt i32 %x.015, %n
  br i1 %cmp16, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %x.0.in17 = phi i64 [ %add, %for.body ], [ %call, %entry ]
  %sext = shl i64 %x.0.in17, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = fmul float %0, %0
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %mul, ptr %arrayidx5, align 4
  %call6 = tail call i64 @_Z15get_global_sizej(i32 noundef 0)
  %add = add i64 %call6, %idxprom
  %x.0 = trunc i64 %add to i32
  %cmp = icmp slt i32 %x.0, %n
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define dso_local spir_kernel void @k_grid_stride_in_place(ptr noundef captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !76 !kernel_arg_access_qual !7 !kernel_arg_type !77 !kernel_arg_base_type !77 !kernel_arg_type_qual !78 !kernel_arg_name !79 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %x.012 = trunc i64 %call to i32
  %cmp13 = icmp slt i32 %x.012, %n
  br i1 %cmp13, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %x.0.in14 = phi i64 [ %add, %for.body ], [ %call, %entry ]
  %sext = shl i64 %x.0.in14, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = fmul float %0, %0
  store float %mul, ptr %arrayidx, align 4
  %call4 = tail call i64 @_Z15get_global_sizej(i32 noundef 0)
  %add = add i64 %call4, %idxprom
  %x.0 = trunc i64 %add to i32
  %cmp = icmp slt i32 %x.0, %n
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define dso_local spir_kernel void @k_grid_stride_neighbour(ptr noundef captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !76 !kernel_arg_access_qual !7 !kernel_arg_type !77 !kernel_arg_base_type !77 !kernel_arg_type_qual !78 !kernel_arg_name !79 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sub = add nsw i32 %n, -1
  %x.015 = trunc i64 %call to i32
  %cmp16 = icmp sgt i32 %sub, %x.015
  br i1 %cmp16, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %x.0.in17 = phi i64 [ %add7, %for.body ], [ %call, %entry ]
  %add = shl i64 %x.0.in17, 32
  %sext = add i64 %add, 4294967296
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %idxprom2 = ashr exact i64 %add, 32
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  %1 = load float, ptr %arrayidx3, align 4
  %add4 = fadd float %0, %1
  store float %add4, ptr %arrayidx3, align 4
  %call5 = tail call i64 @_Z15get_global_sizej(i32 noundef 0)
  %add7 = add i64 %call5, %idxprom2
  %x.0 = trunc i64 %add7 to i32
  %cmp = icmp sgt i32 %sub, %x.0
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define dso_local spir_kernel void @k_grid_stride_odd(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %x.015 = trunc i64 %call to i32
  %cmp16 = icmp slt i32 %x.015, %n
  br i1 %cmp16, label %for.body, label %for.cond.cleanup

for.cond.cleanup:
  ret void

for.body:
  %x.0.in17 = phi i64 [ %add, %for.body ], [ %call, %entry ]
  %sext = shl i64 %x.0.in17, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = fmul float %0, %0
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %mul, ptr %arrayidx5, align 4
  %call6 = tail call i64 @_Z15get_global_sizej(i32 noundef 0)
  %add = add i64 %call6, %idxprom
  %x.0 = trunc i64 %add to i32
  %cmp = icmp slt i32 %x.0, %n
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define dso_local spir_kernel void @k_group_histogram(ptr noundef readonly captures(none) %p, ptr noundef writeonly captures(none) %c, ptr noundef %t) local_unnamed_addr !kernel_arg_addr_space !87 !kernel_arg_access_qual !25 !kernel_arg_type !88 !kernel_arg_base_type !88 !kernel_arg_type_qual !27 !kernel_arg_name !89 {
entry:
  %call = tail call i64 @_Z12get_local_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z12get_group_idj(i32 noundef 0)
  %conv2 = trunc i64 %call1 to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %t, i64 %idxprom
  store i32 0, ptr %arrayidx, align 4
  tail call void @_Z7barrierj(i32 noundef 1)
  %call3 = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %arrayidx4 = getelementptr inbounds i32, ptr %p, i64 %call3
  %0 = load i32, ptr %arrayidx4, align 4
  %and = and i32 %0, 63
  %1 = zext i32 %and to i64
  %arrayidx6 = getelementptr inbounds i32, ptr %t, i64 %1
  %call7 = tail call i32 @_Z14_cl_atomic_incPU7CLlocalVi(ptr noundef %arrayidx6)
  tail call void @_Z7barrierj(i32 noundef 1)
  %2 = load i32, ptr %arrayidx, align 4
  %mul = shl nsw i32 %conv2, 6
  %add = add nsw i32 %mul, %conv
  %idxprom10 = sext i32 %add to i64
  %arrayidx11 = getelementptr inbounds i32, ptr %c, i64 %idxprom10
  store i32 %2, ptr %arrayidx11, align 4
  ret void
}

define dso_local spir_kernel void @k_group_id(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z12get_group_idj(i32 noundef 0)
  %call1 = tail call i64 @_Z14get_local_sizej(i32 noundef 0)
  %mul = mul i64 %call1, %call
  %call2 = tail call i64 @_Z12get_local_idj(i32 noundef 0)
  %add = add i64 %mul, %call2
  %sext = shl i64 %add, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %call3 = tail call i64 @_Z14get_num_groupsj(i32 noundef 0)
  %conv4 = uitofp i64 %call3 to float
  %add5 = fadd float %0, %conv4
  %arrayidx7 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %add5, ptr %arrayidx7, align 4
  ret void
}

define dso_local spir_kernel void @k_group_id_repeats(ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !71 !kernel_arg_access_qual !72 !kernel_arg_type !73 !kernel_arg_base_type !73 !kernel_arg_type_qual !74 !kernel_arg_name !75 {
entry:
  %call = tail call i64 @_Z12get_group_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %rem = and i64 %call, 7
  %arrayidx = getelementptr inbounds i32, ptr %b, i64 %rem
  store i32 %conv, ptr %arrayidx, align 4
  ret void
}

define dso_local spir_kernel void @k_halved(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %div = sdiv i32 %conv, 128
  %idxprom1 = sext i32 %div to i64
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_helper(ptr noundef %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idx.ext = ashr exact i64 %sext, 32
  %add.ptr = getelementptr inbounds float, ptr %a, i64 %idx.ext
  tail call void @_Z12_cl_prefetchPU8CLglobalKfm(ptr noundef %add.ptr, i64 noundef 1)
  %0 = load float, ptr %add.ptr, align 4
  tail call void @put_row(ptr noundef %b, i32 noundef %conv, float noundef %0)
  ret void
}

define dso_local spir_kernel void @k_histogram_rows(ptr noundef readonly captures(none) %p, ptr noundef captures(none) %c) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !61 !kernel_arg_base_type !61 !kernel_arg_type_qual !9 !kernel_arg_name !62 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %mul = shl nsw i32 %conv, 4
  %mul2 = shl nsw i32 %conv, 6
  %0 = sext i32 %mul2 to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %entry ], [ %indvars.iv.next, %for.body ]
  %1 = add nuw nsw i64 %indvars.iv, %0
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %1
  %2 = load i32, ptr %arrayidx, align 4
  %and = and i32 %2, 15
  %add3 = or i32 %and, %mul
  %idxprom4 = sext i32 %add3 to i64
  %arrayidx5 = getelementptr inbounds i32, ptr %c, i64 %idxprom4
  %3 = load i32, ptr %arrayidx5, align 4
  %inc = add nsw i32 %3, 1
  store i32 %inc, ptr %arrayidx5, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, 64
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_in_place_stencil(ptr noundef captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !76 !kernel_arg_access_qual !7 !kernel_arg_type !77 !kernel_arg_base_type !77 !kernel_arg_type_qual !78 !kernel_arg_name !79 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %cmp = icmp sgt i32 %conv, 0
  %sub = add nsw i32 %n, -1
  %cmp2 = icmp sgt i32 %sub, %conv
  %or.cond = select i1 %cmp, i1 %cmp2, i1 false
  br i1 %or.cond, label %if.then, label %if.end

if.then:
  %sub4 = add i64 %call, 4294967295
  %0 = and i64 %sub4, 4294967295
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %0
  %1 = load float, ptr %arrayidx, align 4
  %sext = shl i64 %call, 32
  %idxprom5 = ashr exact i64 %sext, 32
  %arrayidx6 = getelementptr inbounds float, ptr %b, i64 %idxprom5
  %2 = load float, ptr %arrayidx6, align 4
  %add = fadd float %1, %2
  %sext22 = add i64 %sext, 4294967296
  %idxprom8 = ashr exact i64 %sext22, 32
  %arrayidx9 = getelementptr inbounds float, ptr %b, i64 %idxprom8
  %3 = load float, ptr %arrayidx9, align 4
  %add10 = fadd float %add, %3
  %div = fdiv float %add10, 3.000000e+00, !fpmath !59
  store float %div, ptr %arrayidx6, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_last_found(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %cmp = fcmp ogt float %0, 5.000000e-01
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %conv = trunc i64 %call to i32
  %conv2 = sitofp i32 %conv to float
  store float %conv2, ptr %b, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_mandelbrot(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  br label %land.rhs

land.rhs:
  %u.032 = phi float [ %0, %entry ], [ %add, %for.body ]
  %i.031 = phi i32 [ 0, %entry ], [ %inc, %for.body ]
  %v.030 = phi float [ 0.000000e+00, %entry ], [ %3, %for.body ]
  %mul2 = fmul float %v.030, %v.030
  %1 = tail call float @llvm.fmuladd.f32(float %u.032, float %u.032, float %mul2)
  %cmp3 = fcmp olt float %1, 4.000000e+00
  br i1 %cmp3, label %for.body, label %for.end

for.body:
  %neg = fneg float %mul2
  %2 = tail call float @llvm.fmuladd.f32(float %u.032, float %u.032, float %neg)
  %add = fadd float %0, %2
  %mul = fmul float %u.032, 2.000000e+00
  %3 = tail call float @llvm.fmuladd.f32(float %mul, float %v.030, float 0x3FB99999A0000000)
  %inc = add nuw nsw i32 %i.031, 1
  %exitcond.not = icmp eq i32 %inc, 200
  br i1 %exitcond.not, label %for.end, label %land.rhs

for.end:
  %i.0.lcssa = phi i32 [ 200, %for.body ], [ %i.031, %land.rhs ]
  %conv9 = sitofp i32 %i.0.lcssa to float
  %arrayidx11 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %conv9, ptr %arrayidx11, align 4
  ret void
}

define dso_local spir_kernel void @k_matmul(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %c, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !48 !kernel_arg_access_qual !20 !kernel_arg_type !49 !kernel_arg_base_type !49 !kernel_arg_type_qual !50 !kernel_arg_name !51 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %cmp26 = icmp sgt i32 %n, 0
  %mul = mul nsw i32 %conv2, %n
  br i1 %cmp26, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %0 = sext i32 %mul to i64
  %1 = zext i32 %n to i64
  %sext = shl i64 %call, 32
  %2 = ashr exact i64 %sext, 32
  %wide.trip.count = zext i32 %n to i64
  br label %for.body

for.cond.cleanup:
  %s.0.lcssa = phi float [ 0.000000e+00, %entry ], [ %8, %for.body ]
  %conv = trunc i64 %call to i32
  %add10 = add nsw i32 %mul, %conv
  %idxprom11 = sext i32 %add10 to i64
  %arrayidx12 = getelementptr inbounds float, ptr %b, i64 %idxprom11
  store float %s.0.lcssa, ptr %arrayidx12, align 4
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %s.027 = phi float [ 0.000000e+00, %for.body.lr.ph ], [ %8, %for.body ]
  %3 = add nsw i64 %indvars.iv, %0
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %3
  %4 = load float, ptr %arrayidx, align 4
  %5 = mul nsw i64 %indvars.iv, %1
  %6 = add nsw i64 %5, %2
  %arrayidx7 = getelementptr inbounds float, ptr %c, i64 %6
  %7 = load float, ptr %arrayidx7, align 4
  %8 = tail call float @llvm.fmuladd.f32(float %4, float %7, float %s.027)
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_matrix_add(ptr noundef readonly captures(none) %a, ptr noundef captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %cmp = icmp slt i32 %conv, %w
  %cmp4 = icmp slt i32 %conv2, %h
  %or.cond = select i1 %cmp, i1 %cmp4, i1 false
  br i1 %or.cond, label %if.then, label %if.end

if.then:
  %mul = mul nsw i32 %conv2, %w
  %add = add nsw i32 %mul, %conv
  %idxprom = sext i32 %add to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx9 = getelementptr inbounds float, ptr %b, i64 %idxprom
  %1 = load float, ptr %arrayidx9, align 4
  %add10 = fadd float %0, %1
  store float %add10, ptr %arrayidx9, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_mirrored(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %1 = xor i32 %conv, -1
  %sub1 = add i32 %1, %n
  %idxprom2 = sext i32 %sub1 to i64
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %0, ptr %arrayidx3, align 4
  ret void
}

define dso_local spir_kernel void @k_named_private(ptr noundef captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !61 !kernel_arg_base_type !61 !kernel_arg_type_qual !78 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %b, i64 %idxprom
  store i32 %conv, ptr %arrayidx, align 4
  store i32 %conv, ptr %a, align 4
  %arrayidx2 = getelementptr inbounds i32, ptr %a, i64 1
  %0 = load i32, ptr %arrayidx2, align 4
  %add = add nsw i32 %0, 1
  store i32 %add, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_nbody(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !65 !kernel_arg_base_type !66 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %cmp21 = icmp sgt i32 %n, 0
  %sext20 = shl i64 %call, 32
  %idxprom2 = ashr exact i64 %sext20, 32
  br i1 %cmp21, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %arrayidx3 = getelementptr inbounds <4 x float>, ptr %a, i64 %idxprom2
  %0 = load <4 x float>, ptr %arrayidx3, align 16
  %wide.trip.count = zext i32 %n to i64
  br label %for.body

for.cond.cleanup:
  %f.0.lcssa = phi <4 x float> [ zeroinitializer, %entry ], [ %3, %for.body ]
  %arrayidx7 = getelementptr inbounds <4 x float>, ptr %b, i64 %idxprom2
  store <4 x float> %f.0.lcssa, ptr %arrayidx7, align 16
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %f.023 = phi <4 x float> [ zeroinitializer, %for.body.lr.ph ], [ %3, %for.body ]
  %arrayidx = getelementptr inbounds <4 x float>, ptr %a, i64 %indvars.iv
  %1 = load <4 x float>, ptr %arrayidx, align 16
  %sub = fsub <4 x float> %1, %0
  %2 = insertelement <4 x float> %sub, float 0.000000e+00, i64 3
  %call4 = tail call float @_Z7_cl_dotDv4_fS_(<4 x float> noundef %2, <4 x float> noundef %2)
  %add = fadd float %call4, 0x3F847AE140000000
  %call5 = tail call float @_Z9_cl_rsqrtf(float noundef %add)
  %splat.splatinsert = insertelement <4 x float> poison, float %call5, i64 0
  %splat.splat = shufflevector <4 x float> %splat.splatinsert, <4 x float> poison, <4 x i32> zeroinitializer
  %3 = tail call <4 x float> @llvm.fmuladd.v4f32(<4 x float> %2, <4 x float> %splat.splat, <4 x float> %f.023)
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_neighbour_planes(ptr noundef captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !71 !kernel_arg_access_qual !72 !kernel_arg_type !82 !kernel_arg_base_type !82 !kernel_arg_type_qual !74 !kernel_arg_name !75 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %call3 = tail call i64 @_Z13get_global_idj(i32 noundef 2)
  %conv4 = trunc i64 %call3 to i32
  %mul = shl nsw i32 %conv4, 4
  %add = add nsw i32 %mul, %conv2
  %mul5 = shl nsw i32 %add, 4
  %add6 = add nsw i32 %mul5, %conv
  %cmp = icmp sgt i32 %conv4, 0
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %sub = add nsw i32 %add6, -256
  %idxprom = sext i32 %sub to i64
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %add8 = fadd float %0, 1.000000e+00
  %idxprom9 = sext i32 %add6 to i64
  %arrayidx10 = getelementptr inbounds float, ptr %b, i64 %idxprom9
  store float %add8, ptr %arrayidx10, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_overlapping_windows(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %mul = shl nsw i32 %conv, 1
  %0 = sext i32 %mul to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %entry ], [ %indvars.iv.next, %for.body ]
  %1 = load float, ptr %arrayidx, align 4
  %2 = trunc i64 %indvars.iv to i32
  %conv2 = sitofp i32 %2 to float
  %add = fadd float %1, %conv2
  %3 = add nsw i64 %indvars.iv, %0
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %3
  store float %add, ptr %arrayidx5, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, 4
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_pairs(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %mul = shl nsw i32 %conv, 1
  %add = or i32 %mul, 1
  %idxprom = sext i32 %add to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %idxprom2 = sext i32 %mul to i64
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %0, ptr %arrayidx3, align 4
  %arrayidx6 = getelementptr inbounds float, ptr %a, i64 %idxprom2
  %1 = load float, ptr %arrayidx6, align 4
  %arrayidx10 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %1, ptr %arrayidx10, align 4
  ret void
}

define dso_local spir_kernel void @k_partial_sums(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z12get_local_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %call1
  %0 = load float, ptr %arrayidx, align 4
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx2 = getelementptr inbounds [64 x float], ptr @k_partial_sums.t, i64 0, i64 %idxprom
  store float %0, ptr %arrayidx2, align 4
  tail call void @_Z7barrierj(i32 noundef 1)
  br label %for.body

for.cond.cleanup:
  %cmp11 = icmp eq i32 %conv, 0
  br i1 %cmp11, label %if.then13, label %if.end16

for.body:
  %s.026 = phi i32 [ 32, %entry ], [ %3, %if.end ]
  %cmp4 = icmp sgt i32 %s.026, %conv
  br i1 %cmp4, label %if.then, label %if.end

if.then:
  %add = add nsw i32 %s.026, %conv
  %idxprom6 = sext i32 %add to i64
  %arrayidx7 = getelementptr inbounds [64 x float], ptr @k_partial_sums.t, i64 0, i64 %idxprom6
  %1 = load float, ptr %arrayidx7, align 4
  %2 = load float, ptr %arrayidx2, align 4
  %add10 = fadd float %1, %2
  store float %add10, ptr %arrayidx2, align 4
  br label %if.end

if.end:
  tail call void @_Z7barrierj(i32 noundef 1)
  %3 = lshr i32 %s.026, 1
  %cmp.not = icmp ult i32 %s.026, 2
  br i1 %cmp.not, label %for.cond.cleanup, label %for.body

if.then13:
  %4 = load float, ptr @k_partial_sums.t, align 16
  %call14 = tail call i64 @_Z12get_group_idj(i32 noundef 0)
  %arrayidx15 = getelementptr inbounds float, ptr %b, i64 %call14
  store float %4, ptr %arrayidx15, align 4
  br label %if.end16

if.end16:
  ret void
}

define dso_local spir_kernel void @k_past_the_end(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %sext5 = add i64 %sext, 4294967296
  %idxprom1 = ashr exact i64 %sext5, 32
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_pointer_in_structure(ptr noundef %b) local_unnamed_addr !kernel_arg_addr_space !71 !kernel_arg_access_qual !72 !kernel_arg_type !73 !kernel_arg_base_type !73 !kernel_arg_type_qual !74 !kernel_arg_name !75 {
entry:
  %s = alloca %struct.Held, align 8
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %0 = bitcast ptr %s to ptr
  call void @llvm.lifetime.start.p0(ptr %s)
  %p = getelementptr inbounds %struct.Held, ptr %s, i64 0, i32 0
  store ptr %b, ptr %p, align 8
  %n = getelementptr inbounds %struct.Held, ptr %s, i64 0, i32 1
  store i32 0, ptr %n, align 8
  %call1 = call i32 @first_held(ptr noundef nonnull %s)
  %add = add nsw i32 %call1, 1
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %b, i64 %idxprom
  store i32 %add, ptr %arrayidx, align 4
  call void @llvm.lifetime.end.p0(ptr %s)
  ret void
}

define dso_local spir_kernel void @k_pointer_walk(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %mul = shl nsw i32 %conv, 3
  %idx.ext = sext i32 %mul to i64
  %add.ptr = getelementptr inbounds float, ptr %b, i64 %idx.ext
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %k.011 = phi i32 [ 0, %entry ], [ %inc, %for.body ]
  %q.010 = phi ptr [ %add.ptr, %entry ], [ %incdec.ptr, %for.body ]
  %0 = load float, ptr %arrayidx, align 4
  %conv2 = sitofp i32 %k.011 to float
  %mul3 = fmul float %0, %conv2
  %incdec.ptr = getelementptr inbounds float, ptr %q.010, i64 1
  store float %mul3, ptr %q.010, align 4
  %inc = add nuw nsw i32 %k.011, 1
  %exitcond.not = icmp eq i32 %inc, 8
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_prints(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %cmp = icmp eq i32 %conv, 0
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %fmt_str_cast = addrspacecast ptr @.str to ptr addrspace(2)
  %call2 = tail call i32 (ptr addrspace(2), ...) @printf(ptr addrspace(2) noundef %fmt_str_cast)
  br label %if.end

if.end:
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %0, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_product_wraps(ptr noundef readonly captures(none) %p, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !96 !kernel_arg_base_type !96 !kernel_arg_type_qual !9 !kernel_arg_name !97 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %mul = shl nsw i32 %conv, 1
  %idxprom = sext i32 %mul to i64
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %and = and i32 %0, 2147483647
  %add = or i32 %mul, 1
  %idxprom2 = sext i32 %add to i64
  %arrayidx3 = getelementptr inbounds i32, ptr %p, i64 %idxprom2
  %1 = load i32, ptr %arrayidx3, align 4
  %and4 = and i32 %1, 2147483647
  %mul5 = mul i32 %and4, %and
  %cmp = icmp slt i32 %mul5, 10
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %mul7 = mul nsw i32 %conv, 10
  %add8 = add i32 %mul7, 6
  %add9 = add i32 %add8, %mul5
  %idxprom10 = sext i32 %add9 to i64
  %arrayidx11 = getelementptr inbounds i32, ptr %b, i64 %idxprom10
  store i32 %conv, ptr %arrayidx11, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_ragged_rows(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %0 = load i32, ptr %arrayidx, align 4
  %sext15 = add i64 %sext, 4294967296
  %idxprom1 = ashr exact i64 %sext15, 32
  %arrayidx2 = getelementptr inbounds i32, ptr %p, i64 %idxprom1
  %1 = load i32, ptr %arrayidx2, align 4
  %cmp16 = icmp slt i32 %0, %1
  br i1 %cmp16, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %arrayidx5 = getelementptr inbounds float, ptr %a, i64 %idxprom
  %2 = sext i32 %0 to i64
  %wide.trip.count = sext i32 %1 to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ %2, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %3 = load float, ptr %arrayidx5, align 4
  %arrayidx7 = getelementptr inbounds float, ptr %b, i64 %indvars.iv
  store float %3, ptr %arrayidx7, align 4
  %indvars.iv.next = add nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_reduction(ptr noundef captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !76 !kernel_arg_access_qual !7 !kernel_arg_type !77 !kernel_arg_base_type !77 !kernel_arg_type_qual !78 !kernel_arg_name !79 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %cmp17 = icmp sgt i32 %n, 1
  br i1 %cmp17, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %sext = shl i64 %call, 32
  %idxprom4 = ashr exact i64 %sext, 32
  %arrayidx5 = getelementptr inbounds float, ptr %b, i64 %idxprom4
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %s.018.in = phi i32 [ %n, %for.body.lr.ph ], [ %s.018, %if.end ]
  %s.018 = sdiv i32 %s.018.in, 2
  %cmp2 = icmp sgt i32 %s.018, %conv
  br i1 %cmp2, label %if.then, label %if.end

if.then:
  %add = add nsw i32 %s.018, %conv
  %idxprom = sext i32 %add to i64
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %1 = load float, ptr %arrayidx5, align 4
  %add6 = fadd float %0, %1
  store float %add6, ptr %arrayidx5, align 4
  br label %if.end

if.end:
  tail call void @_Z7barrierj(i32 noundef 2)
  %cmp = icmp sgt i32 %s.018.in, 3
  br i1 %cmp, label %for.body, label %for.cond.cleanup
}

define dso_local spir_kernel void @k_rows(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !47 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %cmp15 = icmp sgt i32 %w, 0
  br i1 %cmp15, label %for.body.lr.ph, label %for.cond.cleanup

for.body.lr.ph:
  %conv = trunc i64 %call to i32
  %mul = mul nsw i32 %conv, %w
  %0 = sext i32 %mul to i64
  %wide.trip.count = zext i32 %w to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.lr.ph ], [ %indvars.iv.next, %for.body ]
  %1 = add nsw i64 %indvars.iv, %0
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %1
  %2 = load float, ptr %arrayidx, align 4
  %mul2 = fmul float %2, 2.000000e+00
  %arrayidx6 = getelementptr inbounds float, ptr %b, i64 %1
  store float %mul2, ptr %arrayidx6, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_rows_too_short(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !47 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %conv3 = sitofp i32 %conv2 to float
  %add = fadd float %0, %conv3
  %mul = mul nsw i32 %conv2, %w
  %add4 = add nsw i32 %mul, %conv
  %idxprom5 = sext i32 %add4 to i64
  %arrayidx6 = getelementptr inbounds float, ptr %b, i64 %idxprom5
  store float %add, ptr %arrayidx6, align 4
  ret void
}

define dso_local spir_kernel void @k_saxpy_in_place(ptr noundef readonly captures(none) %a, ptr noundef captures(none) %b, float noundef %s) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !26 !kernel_arg_base_type !26 !kernel_arg_type_qual !27 !kernel_arg_name !28 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom
  %1 = load float, ptr %arrayidx2, align 4
  %2 = tail call float @llvm.fmuladd.f32(float %s, float %0, float %1)
  store float %2, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_scale(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n, float noundef %s) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !21 !kernel_arg_base_type !21 !kernel_arg_type_qual !22 !kernel_arg_name !23 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %cmp = icmp slt i32 %conv, %n
  br i1 %cmp, label %if.then, label %if.end

if.then:
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = fmul float %0, %s
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %mul, ptr %arrayidx3, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_scatter(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef readonly captures(none) %p) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !35 !kernel_arg_name !36 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %arrayidx2 = getelementptr inbounds i32, ptr %p, i64 %idxprom
  %1 = load i32, ptr %arrayidx2, align 4
  %idxprom3 = sext i32 %1 to i64
  %arrayidx4 = getelementptr inbounds float, ptr %b, i64 %idxprom3
  store float %0, ptr %arrayidx4, align 4
  ret void
}

define dso_local spir_kernel void @k_select(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %cmp = fcmp ogt float %0, 0.000000e+00
  br i1 %cmp, label %if.then, label %if.else

if.then:
  %call4 = tail call float @_Z8_cl_sqrtf(float noundef %0)
  br label %if.end

if.else:
  %fneg = fneg float %0
  br label %if.end

if.end:
  %fneg.sink = phi float [ %call4, %if.then ], [ %fneg, %if.else ]
  %1 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %fneg.sink, ptr %1, align 4
  ret void
}

define dso_local spir_kernel void @k_strided(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %s) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !28 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = mul nsw i32 %conv, %s
  %add = add nsw i32 %mul, 1
  %idxprom1 = sext i32 %add to i64
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_structures(ptr noundef readonly captures(none) %a, ptr noundef captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !90 !kernel_arg_base_type !90 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds %struct.Body, ptr %b, i64 %idxprom
  %arrayidx2 = getelementptr inbounds %struct.Body, ptr %a, i64 %idxprom
  %0 = bitcast ptr %arrayidx to ptr
  %1 = bitcast ptr %arrayidx2 to ptr
  tail call void @llvm.memcpy.p0.p0.i64(ptr noundef nonnull align 16 dereferenceable(32) %0, ptr noundef nonnull align 16 dereferenceable(32) %1, i64 32, i1 false), !tbaa.struct !91
  %c = getelementptr inbounds %struct.Body, ptr %b, i64 %idxprom, i32 1
  %2 = load float, ptr %c, align 16
  %add = fadd float %2, 1.000000e+00
  store float %add, ptr %c, align 16
  ret void
}

define dso_local spir_kernel void @k_tile_transpose(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z12get_local_idj(i32 noundef 0)
  %call1 = tail call i64 @_Z12get_local_idj(i32 noundef 1)
  %call3 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv4 = sext i32 %w to i64
  %mul = mul i64 %call3, %conv4
  %call5 = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %add = add i64 %mul, %call5
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %add
  %0 = load float, ptr %arrayidx, align 4
  %sext = shl i64 %call1, 32
  %idxprom = ashr exact i64 %sext, 32
  %sext31 = shl i64 %call, 32
  %idxprom7 = ashr exact i64 %sext31, 32
  %arrayidx8 = getelementptr inbounds [16 x [17 x float]], ptr @k_tile_transpose.t, i64 0, i64 %idxprom, i64 %idxprom7
  store float %0, ptr %arrayidx8, align 4
  tail call void @_Z7barrierj(i32 noundef 1)
  %arrayidx12 = getelementptr inbounds [16 x [17 x float]], ptr @k_tile_transpose.t, i64 0, i64 %idxprom7, i64 %idxprom
  %1 = load float, ptr %arrayidx12, align 4
  %call13 = tail call i64 @_Z12get_group_idj(i32 noundef 0)
  %mul14 = shl i64 %call13, 4
  %add16 = add i64 %mul14, %idxprom
  %conv17 = sext i32 %h to i64
  %mul18 = mul i64 %add16, %conv17
  %call19 = tail call i64 @_Z12get_group_idj(i32 noundef 1)
  %mul20 = shl i64 %call19, 4
  %add21 = add i64 %mul20, %idxprom7
  %add23 = add i64 %add21, %mul18
  %arrayidx24 = getelementptr inbounds float, ptr %b, i64 %add23
  store float %1, ptr %arrayidx24, align 4
  ret void
}

define dso_local spir_kernel void @k_transcendental(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %call1 = tail call float @_Z7_cl_sinf(float noundef %0)
  %call2 = tail call float @_Z7_cl_expf(float noundef %call1)
  %call5 = tail call float @_Z8_cl_fabsf(float noundef %0)
  %call6 = tail call float @_Z7_cl_powff(float noundef %call5, float noundef 0x3FF4CCCCC0000000)
  %add = fadd float %call2, %call6
  %arrayidx8 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %add, ptr %arrayidx8, align 4
  ret void
}

define dso_local spir_kernel void @k_transpose(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %cmp = icmp slt i32 %conv, %w
  %cmp4 = icmp slt i32 %conv2, %h
  %or.cond = select i1 %cmp, i1 %cmp4, i1 false
  br i1 %or.cond, label %if.then, label %if.end

if.then:
  %mul = mul nsw i32 %conv2, %w
  %add = add nsw i32 %mul, %conv
  %idxprom = sext i32 %add to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul6 = mul nsw i32 %conv, %h
  %add7 = add nsw i32 %mul6, %conv2
  %idxprom8 = sext i32 %add7 to i64
  %arrayidx9 = getelementptr inbounds float, ptr %b, i64 %idxprom8
  store float %0, ptr %arrayidx9, align 4
  br label %if.end

if.end:
  ret void
}

define dso_local spir_kernel void @k_triangle(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %0 = and i64 %call, 2147483648
  %cmp.not11.not = icmp eq i64 %0, 0
  br i1 %cmp.not11.not, label %for.body.preheader, label %for.cond.cleanup

for.body.preheader:
  %1 = add nuw i64 %call, 1
  %wide.trip.count = and i64 %1, 4294967295
  br label %for.body

for.cond.cleanup:
  %s.0.lcssa = phi float [ 0.000000e+00, %entry ], [ %add, %for.body ]
  %sext = shl i64 %call, 32
  %idxprom2 = ashr exact i64 %sext, 32
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %s.0.lcssa, ptr %arrayidx3, align 4
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %for.body.preheader ], [ %indvars.iv.next, %for.body ]
  %s.012 = phi float [ 0.000000e+00, %for.body.preheader ], [ %add, %for.body ]
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %indvars.iv
  %2 = load float, ptr %arrayidx, align 4
  %add = fadd float %s.012, %2
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, %wide.trip.count
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}

define dso_local spir_kernel void @k_triples(ptr noundef %a, ptr noundef %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %conv1 = ashr exact i64 %sext, 32
  %call2 = tail call <3 x float> @_Z10_cl_vload3mPU8CLglobalKf(i64 noundef %conv1, ptr noundef %a)
  %0 = shufflevector <3 x float> %call2, <3 x float> poison, <3 x i32> <i32 2, i32 1, i32 0>
  tail call void @_Z11_cl_vstore3Dv3_fmPU8CLglobalf(<3 x float> noundef %0, i64 noundef %conv1, ptr noundef %b)
  ret void
}

define dso_local spir_kernel void @k_two_outputs(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, ptr noundef writeonly captures(none) %c) local_unnamed_addr !kernel_arg_addr_space !29 !kernel_arg_access_qual !25 !kernel_arg_type !30 !kernel_arg_base_type !30 !kernel_arg_type_qual !27 !kernel_arg_name !31 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %add = fadd float %0, 1.000000e+00
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom
  store float %add, ptr %arrayidx2, align 4
  %1 = load float, ptr %arrayidx, align 4
  %mul = fmul float %1, 1.000000e+01
  %conv5 = fptosi float %mul to i32
  %arrayidx7 = getelementptr inbounds i32, ptr %c, i64 %idxprom
  store i32 %conv5, ptr %arrayidx7, align 4
  ret void
}

define dso_local spir_kernel void @k_unflattened(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !47 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %rem = srem i32 %conv, %w
  %idxprom = sext i32 %rem to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %sext = shl i64 %call, 32
  %idxprom1 = ashr exact i64 %sext, 32
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_unflattened_transpose(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %w, i32 noundef %h) local_unnamed_addr !kernel_arg_addr_space !19 !kernel_arg_access_qual !20 !kernel_arg_type !42 !kernel_arg_base_type !42 !kernel_arg_type_qual !22 !kernel_arg_name !43 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %rem = srem i32 %conv, %w
  %div = sdiv i32 %conv, %w
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul = mul nsw i32 %rem, %h
  %add = add nsw i32 %mul, %div
  %idxprom1 = sext i32 %add to i64
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_vector_calls(ptr noundef %a, ptr noundef %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %conv1 = ashr exact i64 %sext, 32
  %call2 = tail call <4 x float> @_Z10_cl_vload4mPU8CLglobalKf(i64 noundef %conv1, ptr noundef %a)
  %mul = fmul <4 x float> %call2, splat (float 2.000000e+00)
  tail call void @_Z11_cl_vstore4Dv4_fmPU8CLglobalf(<4 x float> noundef %mul, i64 noundef %conv1, ptr noundef %b)
  ret void
}

define dso_local spir_kernel void @k_vectors(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !32 !kernel_arg_base_type !33 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds <4 x float>, ptr %a, i64 %idxprom
  %0 = load <4 x float>, ptr %arrayidx, align 16
  %1 = fmul <4 x float> %0, splat (float 2.000000e+00)
  %mul = shufflevector <4 x float> %1, <4 x float> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>
  %arrayidx2 = getelementptr inbounds <4 x float>, ptr %b, i64 %idxprom
  store <4 x float> %mul, ptr %arrayidx2, align 16
  ret void
}

define dso_local spir_kernel void @k_volume(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %d) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !45 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %call1 = tail call i64 @_Z13get_global_idj(i32 noundef 1)
  %conv2 = trunc i64 %call1 to i32
  %call3 = tail call i64 @_Z13get_global_idj(i32 noundef 2)
  %conv4 = trunc i64 %call3 to i32
  %mul = mul nsw i32 %conv, %d
  %add = add nsw i32 %mul, %conv2
  %mul5 = mul nsw i32 %add, %d
  %add6 = add nsw i32 %mul5, %conv4
  %idxprom = sext i32 %add6 to i64
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %mul7 = mul nsw i32 %conv4, %d
  %add8 = add nsw i32 %mul7, %conv2
  %mul9 = mul nsw i32 %add8, %d
  %add10 = add nsw i32 %mul9, %conv
  %idxprom11 = sext i32 %add10 to i64
  %arrayidx12 = getelementptr inbounds float, ptr %b, i64 %idxprom11
  store float %0, ptr %arrayidx12, align 4
  ret void
}

define dso_local spir_kernel void @k_windows_of_vectors(ptr noundef readonly captures(none) %a, ptr noundef %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %splat.splatinsert = insertelement <4 x float> poison, float %0, i64 0
  %splat.splat = shufflevector <4 x float> %splat.splatinsert, <4 x float> poison, <4 x i32> zeroinitializer
  %mul = shl nsw i32 %conv, 1
  %idx.ext = sext i32 %mul to i64
  %add.ptr = getelementptr inbounds float, ptr %b, i64 %idx.ext
  tail call void @_Z11_cl_vstore4Dv4_fmPU8CLglobalf(<4 x float> noundef %splat.splat, i64 noundef 0, ptr noundef %add.ptr)
  ret void
}

define dso_local spir_kernel void @k_wrapped(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b, i32 noundef %n) local_unnamed_addr !kernel_arg_addr_space !24 !kernel_arg_access_qual !25 !kernel_arg_type !44 !kernel_arg_base_type !44 !kernel_arg_type_qual !27 !kernel_arg_name !40 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %conv = trunc i64 %call to i32
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %add = add nsw i32 %conv, 5
  %rem = srem i32 %add, %n
  %idxprom1 = sext i32 %rem to i64
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local spir_kernel void @k_wraps_around(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %idxprom = and i64 %call, 4294967295
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %idxprom2 = and i64 %call, 255
  %arrayidx3 = getelementptr inbounds float, ptr %b, i64 %idxprom2
  store float %0, ptr %arrayidx3, align 4
  ret void
}

define dso_local spir_kernel void @k_xor_swap(ptr noundef readonly captures(none) %a, ptr noundef writeonly captures(none) %b) local_unnamed_addr !kernel_arg_addr_space !6 !kernel_arg_access_qual !7 !kernel_arg_type !8 !kernel_arg_base_type !8 !kernel_arg_type_qual !9 !kernel_arg_name !10 {
entry:
  %call = tail call i64 @_Z13get_global_idj(i32 noundef 0)
  %sext = shl i64 %call, 32
  %idxprom = ashr exact i64 %sext, 32
  %arrayidx = getelementptr inbounds float, ptr %a, i64 %idxprom
  %0 = load float, ptr %arrayidx, align 4
  %idxprom1 = xor i64 %idxprom, 1
  %arrayidx2 = getelementptr inbounds float, ptr %b, i64 %idxprom1
  store float %0, ptr %arrayidx2, align 4
  ret void
}

define dso_local void @my_barrier_store(i64 noundef %p, i32 noundef %x) local_unnamed_addr {
entry:
  %0 = inttoptr i64 %p to ptr
  store i32 %x, ptr %0, align 4
  ret void
}

define i32 @printf(ptr addrspace(2) noalias noundef readonly captures(none) %0, ...) local_unnamed_addr {
  %2 = alloca %struct.param_t, align 8
  %3 = alloca [1 x %struct.__va_list_tag], align 16
  %4 = bitcast ptr %2 to ptr
  call void @llvm.lifetime.start.p0(ptr %2)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(40) %4, i8 0, i64 40, i1 false)
  %5 = load ptr, ptr @_printf_buffer, align 8
  %6 = getelementptr inbounds %struct.param_t, ptr %2, i64 0, i32 1
  store ptr %5, ptr %6, align 8
  %7 = load i32, ptr @_printf_buffer_capacity, align 4
  %8 = getelementptr inbounds %struct.param_t, ptr %2, i64 0, i32 3
  store i32 %7, ptr %8, align 4
  %9 = load ptr, ptr @_printf_buffer_position, align 8
  %10 = load i32, ptr %9, align 4
  %11 = getelementptr inbounds %struct.param_t, ptr %2, i64 0, i32 2
  store i32 %10, ptr %11, align 8
  %12 = bitcast ptr %3 to ptr
  call void @llvm.lifetime.start.p0(ptr %3)
  %13 = getelementptr inbounds [1 x %struct.__va_list_tag], ptr %3, i64 0, i64 0
  call void @llvm.va_start.p0(ptr nonnull %12)
  %14 = call i32 @__pocl_printf_format_full(ptr addrspace(2) noundef %0, ptr noundef nonnull %2, ptr noundef nonnull %13)
  call void @llvm.va_end.p0(ptr nonnull %12)
  %15 = load ptr, ptr @_printf_buffer, align 8
  %16 = load ptr, ptr @_printf_buffer_position, align 8
  %17 = load i32, ptr @_printf_buffer_capacity, align 4
  %18 = call i32 (ptr, ptr, i32, ptr addrspace(2), ...) @__pocl_printf(ptr noundef %15, ptr noundef %16, i32 noundef %17, ptr addrspace(2) noundef null)
  %19 = load i32, ptr %11, align 8
  %20 = load ptr, ptr @_printf_buffer_position, align 8
  store i32 %19, ptr %20, align 4
  call void @llvm.lifetime.end.p0(ptr %3)
  call void @llvm.lifetime.end.p0(ptr %2)
  ret i32 %14
}

define dso_local void @put_row(ptr noundef writeonly captures(none) %b, i32 noundef %x, float noundef %v) local_unnamed_addr {
entry:
  %mul = shl nsw i32 %x, 3
  %0 = sext i32 %mul to i64
  br label %for.body

for.cond.cleanup:
  ret void

for.body:
  %indvars.iv = phi i64 [ 0, %entry ], [ %indvars.iv.next, %for.body ]
  %1 = trunc i64 %indvars.iv to i32
  %conv = sitofp i32 %1 to float
  %add = fadd float %conv, %v
  %2 = add nuw nsw i64 %indvars.iv, %0
  %arrayidx = getelementptr inbounds float, ptr %b, i64 %2
  store float %add, ptr %arrayidx, align 4
  %indvars.iv.next = add nuw nsw i64 %indvars.iv, 1
  %exitcond.not = icmp eq i64 %indvars.iv.next, 8
  br i1 %exitcond.not, label %for.cond.cleanup, label %for.body
}
