package flight

import (
	"errors"
	"fmt"
)

// ErrGoexit is the error of Do if fn called runtime.Goexit, for example by
// FailNow of a test.
var ErrGoexit = errors.New("flight: the function called runtime.Goexit")

// A PanicError is the error of Do if fn panicked. All callers share it.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine that panicked, from debug.Stack; Error does not contain it
}

// Error returns the text of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("flight: panic: %v", e.Value) }

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
