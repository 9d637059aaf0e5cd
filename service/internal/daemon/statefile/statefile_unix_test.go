//go:build unix

package statefile

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

func newServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Rules: new(config.Rules)})
	testrig.Must(t, err)
	return s
}

func newFile(t *testing.T, path string) *File {
	t.Helper()
	return New(path, newServer(t), slog.New(slog.DiscardHandler))
}

// Devices and pipes are not renamed or replaced: --state=/dev/null is a mistake.
func TestStateIsRegular(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	testrig.Must(t, syscall.Mkfifo(path, 0o600))
	go func() { // open returns when there is a reader
		if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	}()
	f := newFile(t, path)
	if _, err := f.Restore(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v: want the pipe to be left alone", info, err)
	}
	if f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
		f.Close()
	}
}

// A state that cannot be saved, such as on a full disk, does not end the server, and
// damages nothing: the next start takes it as a crash after the last save.
func TestStateCannotBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		first := newFile(t, path)
		unlock, err := first.Restore()
		testrig.Must(t, err)
		testrig.Must(t, first.Save(true))
		unlock()
		if err := os.Mkdir(path+".new", 0o700); err != nil { // a file of that name cannot be written
			t.Fatal(err)
		}
		var log bytes.Buffer
		f := New(path, newServer(t), slog.New(slog.NewTextHandler(&log, nil)))
		if unlock, err = f.Restore(); err != nil {
			t.Fatalf("a start that cannot save, but mark the state: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.SaveEvery(ctx, time.Minute)
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if n := strings.Count(log.String(), "the state was not saved"); n != 4 || f.stats.Failures != 4 {
			t.Errorf("%d errors, %d failures: want 4 of both", n, f.stats.Failures)
		}
		if err := f.Save(true); err == nil {
			t.Error("no error at the end")
		}
		unlock()
		if done, err := newServer(t).LoadFile(path); err != nil || !done.Crashed {
			t.Errorf("%+v, %v: want the file of before, marked as in use", done, err)
		}
	})
}

// A file that is damaged, or has a later version, is kept, and taken as a crash until a save has
// replaced it. The log says which it is, and what to do.
func TestStateIsDamaged(t *testing.T) {
	t.Run("damaged", func(t *testing.T) { testUnreadable(t, "damaged", ".damaged", "the state file is damaged") })
	t.Run("cut", func(t *testing.T) { testUnreadable(t, "weirsrv", ".damaged", "the state file is damaged") })
	t.Run("later", func(t *testing.T) {
		testUnreadable(t, "weirsrv5E and more", ".version5", "the state file was written by another version of weir", `it has version \"5\" of the format, and this program reads version \"4\"`)
	})
	t.Run("no version", func(t *testing.T) { testUnreadable(t, "weirsrv/E and more", ".damaged", "it is not a snapshot") })
}

func testUnreadable(t *testing.T, content, kept string, logged ...string) {
	path := filepath.Join(t.TempDir(), "state")
	testrig.Must(t, errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Mkdir(path+".new", 0o700)))
	var log bytes.Buffer
	start := func() (*File, error) {
		s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{{Name: "a", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}}}}})
		testrig.Must(t, err)
		f := New(path, s, slog.New(slog.NewTextHandler(&log, nil)))
		unlock, err := f.Restore()
		if err == nil {
			unlock()
		}
		return f, err
	}
	if _, err := start(); err == nil {
		t.Error("no error, though nothing can be saved")
	}
	for _, want := range logged {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: want %s", &log, want)
		}
	}
	testrig.Must(t, os.Remove(path+".new"))
	for i := range 2 {
		f, err := start()
		if err != nil || f.server.Recovers() == 0 {
			t.Errorf("start %d: %v, recovers for %v: want it to recover", i, err, f.server.Recovers())
		}
		if text, _ := os.ReadFile(path + kept); string(text) != content {
			t.Errorf("start %d: %q is kept", i, text)
		}
	}
}

// The state is written to the file that a symbolic link names, not in place of the
// link.
func TestStateIsLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	testrig.Must(t, os.Symlink("target", link))
	for _, what := range []string{"missing", "present"} {
		f := newFile(t, link)
		unlock, err := f.Restore()
		if err != nil {
			t.Fatal(what, err)
		}
		unlock()
		if to, err := os.Readlink(link); err != nil || to != "target" {
			t.Errorf("%s: %q, %v: want the link to be kept", what, to, err)
		}
		if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			t.Errorf("%s: %v, %v: want a state at its target", what, info, err)
		}
	}
}

// The state is saved while the server runs, too.
func TestSaveEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		f := newFile(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.SaveEvery(ctx, time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		if _, err := os.Stat(path); err == nil {
			t.Error("it is saved before its time")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
}
