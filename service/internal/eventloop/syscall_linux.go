package eventloop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are system calls that do not block, so the scheduler need not know of them. Otherwise its
// monitor would be woken, which takes a tenth of the processor time of a server.

func read(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

func write(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

// ready gets the events that there are.
func ready(epoll int, events []unix.EpollEvent) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	return result(n, errno)
}

func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
