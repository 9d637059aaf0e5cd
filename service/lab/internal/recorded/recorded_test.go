package recorded_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

const ms = time.Millisecond

var records = []recording.Record{
	{Intended: 50 * ms, Start: 80 * ms, Wait: 10 * ms, End: 90 * ms, Class: 1, Deadline: 170 * ms, Outcome: recording.Ended(weir.Success)}, // sent late
	{Intended: 60 * ms, Start: 60 * ms, End: 85 * ms, Class: 2, Outcome: recording.Ended(outcome.TimedOut)},
	{Intended: 65 * ms, Start: 65 * ms, End: 65 * ms, Outcome: recording.Cancelled}, // not sent
	{Intended: 66 * ms, Start: 76 * ms, Wait: 10 * ms, End: 76 * ms, Outcome: recording.Cancelled},
	{Intended: 40 * ms, Start: 40 * ms, End: 40 * ms, Outcome: recording.Rejected(weir.QueueFull)},
}

// file returns the recording of the records.
func file(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(0, 0))
	testrig.Must(t, w.Name(1, "GET /"))
	for _, r := range records {
		testrig.Must(t, w.Write(r))
	}
	testrig.Must(t, w.Flush())
	testrig.Must(t, w.Lost(3))
	return b.Bytes()
}

// Calls come in the order in which they were sent.
func TestCalls(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run.rec")
	testrig.Must(t, os.WriteFile(name, file(t), 0o600))
	f, err := recorded.Open(name)
	testrig.Must(t, err)
	want := []sim.Arrival{
		{},
		{At: 20 * ms, Class: "2", Patience: 25 * ms},
		{At: 26 * ms, Patience: 10 * ms},
		{At: 30 * ms, Late: 20 * ms, Class: "GET /", Patience: 100 * ms},
	}
	got := f.Calls()
	for i := range got { // of the unit of a file
		for _, d := range []*time.Duration{&got[i].At, &got[i].Late, &got[i].Patience} {
			*d = d.Round(ms)
		}
	}
	if !slices.Equal(got, want) || f.Lost != 3 || f.Note() != "" {
		t.Errorf("%+v, %+v: want %+v", f, got, want)
	}
}

// The callers' time-out shows in when they left or, where that was not seen, in the work that ended the soonest afterwards.
func TestUsualPatience(t *testing.T) {
	requests := func(o weir.Outcome, from, apart time.Duration) (rs []recording.Record) {
		for i := range 40 {
			rs = append(rs, recording.Record{End: from + time.Duration(i)*apart, Outcome: recording.Ended(o)})
		}
		return rs
	}
	quick := requests(weir.Success, 10*ms, ms)
	for rule, tt := range map[string]struct {
		rs   []recording.Record
		want time.Duration
	}{
		"none has left":             {quick, 0},
		"all leave after a time":    {slices.Concat(quick, requests(outcome.TimedOut, 300*ms, 0)), 300 * ms},
		"they leave now and then":   {slices.Concat(quick, requests(outcome.Left, 20*ms, 10*ms)), 0},
		"their work ended later":    {slices.Concat(quick, requests(outcome.Gone, 200*ms, 50*ms)), 200 * ms},
		"others wait longer":        {slices.Concat(requests(weir.Success, 100*ms, 20*ms), requests(outcome.Gone, 200*ms, 50*ms)), 0},
		"they left before it ended": {slices.Concat(quick, deadline(requests(outcome.Late, 200*ms, 50*ms))), 100 * ms},
	} {
		if got := recorded.UsualPatience(tt.rs); got != tt.want {
			t.Errorf("%s: %v: want %v", rule, got, tt.want)
		}
	}
}

// A deadline that is later than when callers leave is not how long they wait.
func TestCallersLeaveBeforeTheDeadline(t *testing.T) {
	f := recorded.File{}
	for i := range 40 {
		at := time.Duration(i) * ms
		f.Records = append(f.Records,
			recording.Record{Intended: at, Start: at, End: at + 10*ms, Deadline: at + 5*time.Second, Outcome: recording.Ended(weir.Success)},
			recording.Record{Intended: at, Start: at, End: at + time.Second, Deadline: at + 400*ms, Outcome: recording.Ended(outcome.Gone)})
	}
	for _, c := range f.Calls() {
		if c.Patience != 400*ms {
			t.Fatalf("%+v: want 400 ms of patience", c)
		}
	}
}

func deadline(rs []recording.Record) []recording.Record {
	for i := range rs {
		rs[i].Deadline = 100 * ms
	}
	return rs
}

func TestWhatIsNotRead(t *testing.T) {
	whole := file(t)
	for name, tt := range map[string]struct {
		text []byte
		note string
		err  string
	}{
		"cut":      {whole[:len(whole)-3], "it: the file is cut off within a block: the 5 requests before that are read", ""},
		"joined":   {slices.Concat(whole, whole), "", "it: a second file begins here: give one file at a time"},
		"cut soon": {whole[:30], "", "it: the file is cut off within a block"},
		"header":   {whole[:24], "", "it: the recording has no requests"},
		"empty":    {nil, "", "it: the file is empty"},
		"other":    {[]byte("intended_s,start_s\n"), "", "it: the file is no recording: weirlab convert makes one"},
	} {
		f, err := recorded.Read(bytes.NewReader(tt.text), "it")
		if tt.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
				t.Errorf("%s: %v: want %s", name, err, tt.err)
			}
			continue
		}
		testrig.Must(t, err)
		if f.Note() != tt.note {
			t.Errorf("%s: %q", name, f.Note())
		}
	}
	if _, err := recorded.Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file is read")
	}
}

// A name has nothing that a terminal takes for a command.
func TestNames(t *testing.T) {
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(0, 0))
	testrig.Must(t, w.Name(1, "GET /é"))
	testrig.Must(t, w.Name(2, "a\n\x1b[31m\u202eb\xff"))
	testrig.Must(t, w.Write(records[0]))
	testrig.Must(t, w.Flush())
	f, err := recorded.Read(&b, "it")
	testrig.Must(t, err)
	for number, want := range map[uint16]string{0: "", 1: "GET /é", 2: `a\n\x1b[31m\u202eb\xff`, 3: "3"} {
		if got := f.Class(number); got != want {
			t.Errorf("%d: %q: want %q", number, got, want)
		}
	}
}
