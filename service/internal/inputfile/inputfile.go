// Package inputfile opens files that users name. A named pipe without a writer, or
// with one that is silent, does not block its reader for good.
package inputfile

import (
	"io"
	"os"
	"syscall"
	"time"
)

// patience bounds the time to read a pipe.
const patience = 5 * time.Second

// Open opens a file for reading. A pipe is at its end if no process writes to it, and
// reading it fails after 5 s.
func Open(path string) (*os.File, error) { return open(path, patience) }

func open(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil {
		_ = f.SetReadDeadline(time.Now().Add(patience)) // regular files have none
	}
	return f, err
}

// Read returns the content of a file, or its first most bytes.
func Read(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(most)))
}
