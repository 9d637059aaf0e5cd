// Package classkey has the key under which a context has the class of work.
package classkey

// A Key is the key of a context value of type *weir.Class.
type Key struct{}
