package recording

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weir-go/weir"

	"github.com/weir-go/weir/internal/blockfile"
)

var epoch = time.Unix(1_700_000_000, 5)

// readAll reads a recording to its end.
func readAll(t testing.TB, file io.Reader) (*Reader, []Record, error) {
	r, err := NewReader(file)
	if err != nil {
		return nil, nil, err
	}
	var all []Record
	for {
		rec, err := r.Read()
		if err != nil {
			if _, again := r.Read(); again != err {
				t.Errorf("a second Read at the end: %v: want %v", again, err)
			}
			return r, all, err
		}
		all = append(all, rec)
	}
}

// written returns a file with n records, in blocks of 512, and the bytes at which its blocks end.
func written(n int) (file []byte, records []Record, ends []int) {
	var b bytes.Buffer
	w := NewWriter(&b, epoch)
	rng := rand.New(rand.NewPCG(1, 2))
	_ = w.Name(3, "GET /")
	for range n {
		r := random(rng)
		records = append(records, r)
		_ = w.Write(r)
		if len(records)%writeAhead == 0 {
			ends = append(ends, b.Len())
		}
	}
	_ = w.Flush()
	ends = append(ends, b.Len())
	_ = w.Lost(7)
	return b.Bytes(), records, ends
}

// The file of package doc, byte by byte.
func TestFormat(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, epoch)
	_ = w.Write(Record{
		Intended: 256, Wait: 128, Start: 512, End: 1280, Deadline: 1024, Inflight: 0x1234,
		Class: 0x0201, Tenant: 0x0403, Outcome: Rejected(weir.QueueFull), Origin: 9,
	})
	_, _ = w.Name(1, "a"), w.Lost(258)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = "7765697272656301" + "05002a36fe9c9717" + "20000000" + "********" +
		"4e00000003000000" + "********" + "010061" +
		"4c00000008000000" + "********" + "0201000000000000" +
		"5200000020000000" + "********" + "0001000000000000" + "02000000" + "01000000" + "06000000" + "06000000" + "3412" + "0102" + "0304" + "13" + "09"
	got := []byte(hex.EncodeToString(b.Bytes()))
	for i, c := range []byte(want) {
		if c == '*' && i < len(got) {
			got[i] = '*'
		}
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAFileIsReadAsWritten(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 2000} {
		file, want, _ := written(n)
		for rule, in := range map[string]io.Reader{"at once": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file))} {
			r, got, err := readAll(t, in)
			if err != io.EOF || !slices.Equal(got, want) {
				t.Fatalf("%d records, %s: %d, %v", n, rule, len(got), err)
			}
			if !r.Epoch().Equal(epoch) || r.Lost() != 7 || !maps.Equal(r.Names(), map[uint16]string{3: "GET /"}) {
				t.Errorf("%d records: %v, %d lost, %v", n, r.Epoch(), r.Lost(), r.Names())
			}
		}
	}
}

func TestACutFileIsReadUpToTheCut(t *testing.T) {
	file, want, ends := written(1100)
	for cut := 0; cut < len(file); cut++ {
		if cut > 100 && cut%101 > 3 && !slices.ContainsFunc(ends, func(end int) bool { return max(end-cut, cut-end) < 20 }) {
			continue
		}
		_, got, err := readAll(t, bytes.NewReader(file[:cut]))
		switch {
		case cut < 7 && (err == nil || got != nil):
			t.Fatalf("cut at %d: %v", cut, err)
		case cut < blockfile.HeaderSize:
			continue
		case err != io.EOF && err != ErrCut:
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := 0
		for i, end := range ends {
			if cut >= end {
				whole = min((i+1)*writeAhead, len(want))
			}
		}
		if cut >= blockfile.HeaderSize && !slices.Equal(got, want[:whole]) {
			t.Fatalf("cut at %d: %d records: want %d", cut, len(got), whole)
		}
	}
}

// A byte that has changed is found, wherever it is.
func TestDamageIsFound(t *testing.T) {
	file, want, _ := written(20)
	for at := range file {
		bad := slices.Clone(file)
		bad[at] ^= 0x10
		_, got, err := readAll(t, bytes.NewReader(bad))
		if err == nil || err == io.EOF {
			t.Fatalf("byte %d: %v", at, err)
		}
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("byte %d: %d records, not those of the file", at, len(got))
		}
	}
}

func TestOtherFiles(t *testing.T) {
	good, _, _ := written(1)
	later := slices.Clone(good)
	later[7] = 2
	for _, tt := range []struct {
		rule, file, want string
	}{
		{"empty", "", "cut off"},
		{"text", "intended_s,start_s,end_s,status\n", "no recording"},
		{"another version", string(later), "version 2"},
		{"a header that is cut", string(good[:10]), "cut off"},
		{"no header, as of a process that was killed as it began", string(good[:4]), "cut off"},
	} {
		if _, err := NewReader(strings.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v: want %s", tt.rule, err, tt.want)
		}
	}
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken)); err != broken {
		t.Errorf("%v: want the error of the io.Reader", err)
	}
	if _, got, err := readAll(t, io.MultiReader(bytes.NewReader(good[:60]), iotest.ErrReader(broken))); err != broken || got != nil {
		t.Errorf("%v: want the error of the io.Reader", err)
	}
}

// A block of a kind that a later version may have is skipped.
func TestUnknownBlocksAreSkipped(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, epoch)
	w.w.Block('?', make([]byte, 5))
	_ = w.Write(Record{Inflight: 1})
	_ = w.Flush()
	if _, got, err := readAll(t, &b); err != io.EOF || len(got) != 1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

type full struct{ left int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestAWriterReturnsTheFirstError(t *testing.T) {
	w := NewWriter(&full{100}, epoch)
	err := w.Write(Record{})
	if err == nil {
		err = w.Flush()
	}
	for range 100 {
		_ = w.Write(Record{})
	}
	if err != nil || w.Flush() != errFull || w.Write(Record{}) != errFull || w.Name(1, "a") != errFull || w.Lost(1) != errFull {
		t.Errorf("%v, %v", err, w.w.Err())
	}
}

// Whatever a file has, the Reader ends, and what it has read can be written and read again.
func FuzzReader(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		file, _, _ := written(n)
		f.Add(file)
		f.Add(file[:len(file)-3])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, got, err := readAll(t, bytes.NewReader(file))
		if r == nil {
			return
		}
		if err == nil || len(got)*Size > len(file) {
			t.Fatalf("%d records of %d bytes, %v", len(got), len(file), err)
		}
		var b bytes.Buffer
		w := NewWriter(&b, r.Epoch())
		for _, rec := range got {
			_ = w.Write(rec)
		}
		_ = w.Flush()
		if _, again, err := readAll(t, &b); err != io.EOF || !slices.Equal(again, got) {
			t.Fatalf("written again: %d records of %d, %v", len(again), len(got), err)
		}
	})
}

// Two recordings that were joined into one file are told from a damaged one.
func TestASecondRecording(t *testing.T) {
	file, want, _ := written(20)
	if _, got, err := readAll(t, bytes.NewReader(append(file, file...))); err != ErrSecond || !slices.Equal(got, want) {
		t.Errorf("%d records, %v: want %d, and %v", len(got), err, len(want), ErrSecond)
	}
}
