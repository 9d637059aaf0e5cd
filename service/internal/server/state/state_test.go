package state

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
)

// A file that cannot be written whole leaves the one of before, and nothing beside it.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	full := errors.New("no space left on device")
	for _, before := range []string{"", "before"} {
		if before != "" {
			if err := WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, before); return err }); err != nil {
				t.Fatal(err)
			}
		}
		err := WriteFile(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, "half")
			return full
		})
		if !errors.Is(err, full) {
			t.Errorf("%v: want the error of the write", err)
		}
		if text, _ := os.ReadFile(path); string(text) != before {
			t.Errorf("%q: want %q", text, before)
		}
		if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: want no file beside it", err)
		}
	}
}

// A mark is written in place.
func TestMarkRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := MarkRunning(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: want an error without a file", err)
	}
	if err := WriteFile(path, func(w io.Writer) error { return write(w, true) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false, false} {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(f)
		f.Close()
		if err != nil || s.Ended != want {
			t.Errorf("%+v, %v: want Ended = %t", s, err, want)
		}
		if err := MarkRunning(path); err != nil {
			t.Error(err)
		}
	}
}

// Fields that a later release adds do no harm.
func TestLaterFields(t *testing.T) {
	fields := append(reflect.VisibleFields(reflect.TypeFor[Snapshot]()), reflect.StructField{Name: "Later", Type: reflect.TypeFor[map[string]int]()})
	later := reflect.New(reflect.StructOf(fields)).Elem()
	later.FieldByName("Clock").SetInt(5)
	later.FieldByName("Later").Set(reflect.ValueOf(map[string]int{"a": 1}))
	path := filepath.Join(t.TempDir(), "state")
	err := WriteFile(path, func(w io.Writer) error {
		out, err := NewWriter(w, true)
		if err != nil {
			return err
		}
		none := reflect.ValueOf(Section{At: begin})
		later.FieldByName("LeasesAt").Set(none)
		later.FieldByName("PagesAt").Set(none)
		return out.end(later.Addr().Interface())
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s, err := Open(f); err != nil || s.Clock != 5 || !s.Ended {
		t.Errorf("%+v, %v", s, err)
	}
}

// write writes an empty snapshot.
func write(w io.Writer, ended bool) error {
	out, err := NewWriter(w, ended)
	if err != nil {
		return err
	}
	var s Snapshot
	s.LeasesAt, err = out.Leases(func(func([]lease.SavedLease) bool) {})
	if err != nil {
		return err
	}
	if s.PagesAt, err = out.Pages(func(func(grant.Page) bool) {}); err != nil {
		return err
	}
	return out.Close(&s)
}
