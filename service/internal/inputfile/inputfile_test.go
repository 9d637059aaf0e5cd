//go:build unix

package inputfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	testrig.Must(t, os.WriteFile(path, []byte("content"), 0o600))
	for most, want := range map[int]string{100: "content", 3: "con"} {
		if got, err := Read(path, most); string(got) != want || err != nil {
			t.Errorf("at most %d: %q, %v: want %q", most, got, err, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want that there is no file", err)
	}
}

// A pipe that no process writes to is empty; one with a silent writer ends with an
// error; the content of one with a writer is read.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	testrig.Must(t, syscall.Mkfifo(path, 0o600))
	if got, err := Read(path, 100); len(got) > 0 || err != nil {
		t.Errorf("without a writer: %q, %v", got, err)
	}
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	testrig.Must(t, err)
	defer w.Close()
	if _, err := w.WriteString("content"); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path, 7); string(got) != "content" || err != nil {
		t.Errorf("with a writer: %q, %v", got, err)
	}
	f, err := open(path, time.Millisecond)
	testrig.Must(t, err)
	defer f.Close()
	if _, err := io.ReadAll(f); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a silent writer: %v: want %v", err, os.ErrDeadlineExceeded)
	}
}
