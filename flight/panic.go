package flight

import (
	"errors"
	"fmt"
)

// ErrGoexit is what the waiters get if fn called runtime.Goexit, such as by
// FailNow of a test.
var ErrGoexit = errors.New("flight: the function called runtime.Goexit")

// A PanicError is what the waiters get if fn panicked. They share it.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine that panicked, as of debug.Stack: worth a line in the log, which Error is too short for
}

// Error says what the panic said, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("flight: panic: %v", e.Value) }

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
