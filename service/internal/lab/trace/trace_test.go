package trace_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/lab/trace"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	w := trace.NewWriter(&b)
	for _, r := range []trace.Record{
		{Intended: 200 * time.Millisecond, Start: 200000001, End: 1500 * time.Millisecond, Status: 200},
		{Intended: time.Second, Start: time.Second, End: 3500 * time.Millisecond, Reason: trace.Timeout},
		{Status: 503, Reason: "a,b\nc"},
	} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `intended_s,start_s,end_s,status,reason
0.200000000,0.200000001,1.500000000,200,
1.000000000,1.000000000,3.500000000,0,timeout
0.000000000,0.000000000,0.000000000,503,a_b_c
`
	if b.String() != want {
		t.Errorf("%s: want\n%s", b.String(), want)
	}
}

func TestReadErrors(t *testing.T) {
	const head = "intended_s,start_s,end_s,status,reason\n"
	for in, want := range map[string]string{
		"a,b\n":        "line 1: not a trace",
		head + "1,2\n": "line 2: 2 fields",
		head + "1.5,0.000000000,0.000000000,200,\n":                   `line 2: seconds "1.5"`,
		head + "x.000000000,0.000000000,0.000000000,200,\n":           `line 2: seconds "x.000000000"`,
		head + "9999999999999.000000000,0.000000000,0.000000000,1,\n": `line 2: seconds`,
		head + "9223372036.854775808,0.000000000,0.000000000,200,\n":  `too many`,
		head + "0.000000000,0.000000000,0.000000000,ok,\n":            `line 2: status "ok"`,
		head + "0.000000000,0.000000000,0.000000000,200,\nfoo\n":      "line 3: 1 fields",
		head + strings.Repeat("x", 100_000):                           "line 2: bufio.Scanner: token too long",
	} {
		r := trace.NewReader(strings.NewReader(in))
		var err error
		for err == nil {
			_, err = r.Read()
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v: want %q", in, err, want)
		}
	}
	if _, err := trace.NewReader(strings.NewReader("")).Read(); err != io.EOF {
		t.Errorf("nothing: %v: want EOF", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteError(t *testing.T) {
	w := trace.NewWriter(full{})
	if err := w.Flush(); err == nil {
		t.Error("want the writer's error")
	}
	if err := w.Write(trace.Record{}); err == nil {
		t.Error("want it again")
	}
}

func TestRecord(t *testing.T) {
	for _, tt := range []struct {
		r                 trace.Record
		label             string
		success, rejected bool
	}{
		{trace.Record{Status: 200}, "200", true, false},
		{trace.Record{Status: 101}, "101", true, false},
		{trace.Record{Status: 304}, "304", true, false},
		{trace.Record{Status: 404}, "404", false, false},
		{trace.Record{Status: 429}, "429", false, true},
		{trace.Record{Status: 503, Reason: "queue_full"}, "503 queue_full", false, true},
		{trace.Record{Status: 504}, "504", false, false},
		{trace.Record{Reason: trace.Refused}, "refused", false, false},
	} {
		if tt.r.Label() != tt.label || tt.r.Success() != tt.success || tt.r.Rejected() != tt.rejected {
			t.Errorf("%+v: %q, success %v, rejected %v", tt.r, tt.r.Label(), tt.r.Success(), tt.r.Rejected())
		}
	}
	late := trace.Record{Intended: time.Second, Start: 5 * time.Second, End: 6 * time.Second}
	if late.Latency() != 5*time.Second {
		t.Errorf("latency %v: want 5s, from the intended start", late.Latency())
	}
}

// What is written is read, to the nanosecond.
func FuzzRoundTrip(f *testing.F) {
	f.Add(int64(0), int64(1), int64(-1), 200, "")
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(999_999_999), -1, "reset")
	f.Fuzz(func(t *testing.T, intended, start, end int64, status int, reason string) {
		if strings.ContainsAny(reason, ",\"\r\n") || len(reason) > 1000 {
			return // a Writer changes it
		}
		want := trace.Record{Intended: time.Duration(intended), Start: time.Duration(start), End: time.Duration(end), Status: status, Reason: reason}
		var b bytes.Buffer
		w := trace.NewWriter(&b)
		if err := errors.Join(w.Write(want), w.Flush()); err != nil {
			t.Fatal(err)
		}
		r := trace.NewReader(&b)
		if got, err := r.Read(); err != nil || got != want {
			t.Fatalf("%+v, %v: want %+v", got, err, want)
		}
		if _, err := r.Read(); err != io.EOF {
			t.Fatalf("%v: want EOF", err)
		}
	})
}
