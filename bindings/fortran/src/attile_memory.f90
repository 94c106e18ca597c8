! SPDX-License-Identifier: Apache-2.0
! Memory of a context's device, and streams. Addresses are type(c_ptr): c_loc gives an array's, c_f_pointer makes an
! array of host memory.
module attile_memory
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use attile_contexts, only: attile_context
  use attile_errors, only: conclude
  use attile_raw, only: raw_alloc => attile_alloc, raw_free => attile_free, raw_copy => attile_copy, &
    raw_prefetch => attile_prefetch, &
    raw_memory_kind => attile_memory_kind, raw_stream_create => attile_stream_create, raw_stream_destroy => attile_stream_destroy, &
    raw_synchronize => attile_synchronize
  implicit none (type, external)
  private
  public :: attile_alloc, attile_free, attile_copy, attile_prefetch, attile_memory_kind
  public :: attile_stream_create, attile_stream_destroy, attile_synchronize

  !> Allocate memory of a kind (ATTILE_MEMORY_DEVICE, ...), aligned to 256 bytes.
  interface attile_alloc
    module procedure alloc
  end interface attile_alloc
  !> Give memory back; work that uses it must be finished. The address becomes null.
  interface attile_free
    module procedure free
  end interface attile_free
  !> Copy bytes between any two kinds of memory.
  interface attile_copy
    module procedure copy
  end interface attile_copy
  !> Move managed memory to where it will be used next.
  interface attile_prefetch
    module procedure prefetch
  end interface attile_prefetch
  !> What kind of memory an address points to.
  interface attile_memory_kind
    module procedure memory_kind
  end interface attile_memory_kind
  !> Make a stream that does not wait for the default stream.
  interface attile_stream_create
    module procedure stream_create
  end interface attile_stream_create
  !> Destroy a stream after its work is done. It becomes null.
  interface attile_stream_destroy
    module procedure stream_destroy
  end interface attile_stream_destroy
  !> Wait until everything queued on a stream, or on the default one, is done.
  interface attile_synchronize
    module procedure synchronize
  end interface attile_synchronize

contains

  subroutine alloc(ctx, kind, bytes, address, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    integer(c_int32_t), intent(in) :: kind
    integer(int64), intent(in) :: bytes
    type(c_ptr), intent(out) :: address
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    address = c_null_ptr
    call conclude(raw_alloc(ctx%handle(), kind, bytes, address), stat, errmsg)
  end subroutine alloc

  subroutine free(ctx, address, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(inout) :: address
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = raw_free(ctx%handle(), address)
    if (status == 0) address = c_null_ptr
    call conclude(status, stat, errmsg)
  end subroutine free

  subroutine copy(ctx, destination, source, bytes, stream, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(in) :: destination, source
    integer(int64), intent(in) :: bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_copy(ctx%handle(), destination, source, bytes, or_null(stream)), stat, errmsg)
  end subroutine copy

  subroutine prefetch(ctx, address, bytes, kind, stream, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer(c_int32_t), intent(in) :: kind
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_prefetch(ctx%handle(), address, bytes, kind, or_null(stream)), stat, errmsg)
  end subroutine prefetch

  subroutine memory_kind(ctx, address, kind, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(out) :: kind
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    kind = 0
    call conclude(raw_memory_kind(ctx%handle(), address, kind), stat, errmsg)
  end subroutine memory_kind

  subroutine stream_create(ctx, stream, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(out) :: stream
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    stream = c_null_ptr
    call conclude(raw_stream_create(ctx%handle(), stream), stat, errmsg)
  end subroutine stream_create

  subroutine stream_destroy(ctx, stream, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(inout) :: stream
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: status
    status = raw_stream_destroy(ctx%handle(), stream)
    if (status == 0) stream = c_null_ptr
    call conclude(status, stat, errmsg)
  end subroutine stream_destroy

  subroutine synchronize(ctx, stream, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_synchronize(ctx%handle(), or_null(stream)), stat, errmsg)
  end subroutine synchronize

  pure function or_null(stream) result(pointer)
    type(c_ptr), intent(in), optional :: stream
    type(c_ptr) :: pointer
    pointer = c_null_ptr
    if (present(stream)) pointer = stream
  end function or_null
end module attile_memory
