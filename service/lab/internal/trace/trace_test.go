package trace_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	w := trace.NewWriter(&b)
	for _, r := range []trace.Record{
		{Intended: 200 * time.Millisecond, Start: 200000001, End: 1500 * time.Millisecond, Status: 200},
		{Intended: time.Second, Start: time.Second, End: 3500 * time.Millisecond, Reason: trace.Timeout},
		{Start: -time.Millisecond, Status: 503, Reason: "a,b\nc"},
	} {
		testrig.Must(t, w.Write(r))
	}
	testrig.Must(t, w.Flush())
	const want = `intended_s,start_s,end_s,status,reason
0.200000000,0.200000001,1.500000000,200,
1.000000000,1.000000000,3.500000000,0,timeout
0.000000000,-0.001000000,0.000000000,503,"a,b
c"
`
	if b.String() != want {
		t.Errorf("%s: want\n%s", b.String(), want)
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

// A record is one row of CSV with the exact instants.
func FuzzWrite(f *testing.F) {
	f.Add(int64(0), int64(1), int64(-1), 200, "")
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(999_999_999), -1, "reset")
	f.Fuzz(func(t *testing.T, intended, start, end int64, status int, reason string) {
		if strings.Contains(reason, "\r") {
			return // a reader of CSV changes it
		}
		r := trace.Record{Intended: time.Duration(intended), Start: time.Duration(start), End: time.Duration(end), Status: status, Reason: reason}
		var b bytes.Buffer
		w := trace.NewWriter(&b)
		testrig.Must(t, errors.Join(w.Write(r), w.Flush()))
		lines, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(lines) != 2 {
			t.Fatalf("%q, %v: want a header and one line", lines, err)
		}
		fields := lines[1]
		if len(fields) != 5 || fields[3] != strconv.Itoa(status) || fields[4] != reason {
			t.Fatalf("%q: want %+v", fields, r)
		}
		for i, want := range []int64{intended, start, end} {
			whole, nanos, _ := strings.Cut(fields[i], ".")
			if got, err := strconv.ParseInt(whole+nanos, 10, 64); err != nil || got != want || len(nanos) != 9 {
				t.Errorf("%q: want %d ns: %v", fields[i], want, err)
			}
		}
	})
}
