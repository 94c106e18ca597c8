! SPDX-License-Identifier: Apache-2.0
! Contexts: one backend on one device, closed when the variable goes out of scope.
module attile_contexts
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  use attile_errors, only: conclude, c_text
  use attile_raw, only: raw_create => attile_context_create, raw_destroy => attile_context_destroy, &
    raw_get_info => attile_context_get_info, &
    raw_options_init => attile_context_options_init, raw_info_init => attile_context_info_init, &
    raw_add_directory => attile_add_backend_directory
  use attile_types, only: attile_context_options, attile_context_info
  implicit none (type, external)
  private
  public :: attile_context, attile_context_create, attile_context_destroy, attile_context_get_info, attile_add_backend_directory

  !> One backend on one device. Opened by attile_context_create; closed by attile_context_destroy or when the variable
  !> ceases to exist, which for variables of the main program and saved ones is the end of the program. A copy (b = a)
  !> refers to the same context without owning it: it is good as long as the variable that was opened is, and closing
  !> it, or its end, closes nothing.
  type :: attile_context
    private
    type(c_ptr) :: pointer = c_null_ptr
    logical :: owner = .false.
  contains
    procedure :: is_open  !< Has it been opened and not been closed?
    procedure :: handle  !< The attile_context * of C, for module attile_raw.
    procedure, private :: refer, refer_to_handle
    generic :: assignment(=) => refer, refer_to_handle
    final :: finalise
  end type attile_context

  interface attile_context_create
    module procedure context_create
  end interface attile_context_create
  interface attile_context_destroy
    module procedure context_destroy
  end interface attile_context_destroy
  interface attile_context_get_info
    module procedure context_get_info
  end interface attile_context_get_info
  interface attile_add_backend_directory
    module procedure add_backend_directory
  end interface attile_add_backend_directory

contains

  !> Choose a backend and open its device. A context that ctx owned before is closed first.
  subroutine context_create(ctx, backend, threads, pool_bytes, stat, errmsg)
    type(attile_context), intent(inout) :: ctx
    character(len=*), intent(in), optional :: backend  !< 'cuda', 'cuda:1', 'cuda,cpu', 'auto'; absent: what ATTILE_BACKEND says
    integer, intent(in), optional :: threads  !< CPU backends: threads a call may use
    integer(int64), intent(in), optional :: pool_bytes  !< unused workspace that may be kept for later calls
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_context_options) :: options
    character(kind=c_char, len=:), allocatable, target :: name
    integer(c_int32_t) :: status
    call context_destroy(ctx)
    call raw_options_init(options, c_sizeof(options))
    if (present(backend)) then
      name = c_text(backend)
      options%backend = c_loc(name)
    end if
    if (present(threads)) options%threads = int(threads, c_int32_t)
    if (present(pool_bytes)) options%pool_bytes = pool_bytes
    status = raw_create(options, ctx%pointer)
    ctx%owner = c_associated(ctx%pointer)
    call conclude(status, stat, errmsg)
  end subroutine context_create

  !> Close a context: waits for its work and releases its memory. One that is not open is left as it is.
  impure elemental subroutine context_destroy(ctx)
    type(attile_context), intent(inout) :: ctx
    if (ctx%owner) call raw_destroy(ctx%pointer)
    ctx%pointer = c_null_ptr
    ctx%owner = .false.
  end subroutine context_destroy

  !> What a context runs on. Texts in it are read with attile_text: attile_text(info%backend).
  subroutine context_get_info(ctx, info, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_context_info), intent(out) :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_info_init(info, c_sizeof(info))
    call conclude(raw_get_info(ctx%pointer, info), stat, errmsg)
  end subroutine context_get_info

  !> Search one more directory for backends, before all others: an absolute path.
  subroutine add_backend_directory(path, stat, errmsg)
    character(len=*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_add_directory(c_text(path)), stat, errmsg)
  end subroutine add_backend_directory

  pure logical function is_open(self)
    class(attile_context), intent(in) :: self
    is_open = c_associated(self%pointer)
  end function is_open

  pure function handle(self)
    class(attile_context), intent(in) :: self
    type(c_ptr) :: handle
    handle = self%pointer
  end function handle

  ! Two owners would close one context twice. What the left side owned is closed, unless it is the very same context.
  impure elemental subroutine refer(self, other)
    class(attile_context), intent(inout) :: self
    class(attile_context), intent(in) :: other
    type(c_ptr) :: pointer
    pointer = other%pointer
    if (c_associated(self%pointer) .and. c_associated(self%pointer, pointer)) return
    if (self%owner) call raw_destroy(self%pointer)
    self%pointer = pointer
    self%owner = .false.
  end subroutine refer

  ! The same for a context that another language opened: ctx = pointer.
  subroutine refer_to_handle(self, pointer)
    class(attile_context), intent(inout) :: self
    type(c_ptr), intent(in) :: pointer
    type(attile_context) :: other
    other%pointer = pointer
    call self%refer(other)
  end subroutine refer_to_handle

  impure elemental subroutine finalise(self)
    type(attile_context), intent(inout) :: self
    call context_destroy(self)
  end subroutine finalise
end module attile_contexts
