package scenario_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/scenario"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Calls come when those of a recording came, with their classes and deadlines. What was not sent does not come.
func TestRecording(t *testing.T) {
	const text = `name: again
duration: 10s
layers:
  - name: service
    classes: {search: 200ms}
    service_time: 50ms
clients:
  - {name: users, recording: run.rec}
variants:
  - {name: a}
  - {name: b, set: {layers.service.service_time: 60ms}}
`
	dir, ok := t.TempDir(), recording.Ended(weir.Success)
	parse := func(text string) (*scenario.File, error) {
		return scenario.Parse(filepath.Join(dir, "a.yaml"), []byte(text))
	}
	if _, err := parse(text); err == nil || !strings.Contains(err.Error(), "a.yaml:8:") || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
	record(t, filepath.Join(dir, "run.rec"),
		recording.Record{Intended: 5 * time.Second, Class: 3, Deadline: 5*time.Second + 100*time.Millisecond, Outcome: ok},
		recording.Record{Intended: 3 * time.Second, Outcome: ok},
		recording.Record{Intended: 4 * time.Second, Outcome: recording.Cancelled},
		recording.Record{Intended: 5 * time.Second, Class: 3, Outcome: recording.Rejected(weir.QueueFull)})
	f, err := parse(text)
	testrig.Must(t, err)
	var got []trace.Record
	for _, sc := range f.Figures[0] {
		r, err := sim.Run(t.Context(), sc, func(r trace.Record) { got = append(got, r) }, nil)
		testrig.Must(t, err)
		if len(r.Classes) != 2 || r.Totals.Calls != 3 || r.Layers[0].Unwanted != 1 {
			t.Errorf("%+v", r)
		}
	}
	want := []trace.Record{
		{End: 50 * time.Millisecond, Status: 200},
		{Intended: 2 * time.Second, Start: 2 * time.Second, End: 2100 * time.Millisecond, Reason: trace.Timeout},
		{Intended: 2 * time.Second, Start: 2 * time.Second, End: 2200 * time.Millisecond, Status: 200},
	}
	for i, r := range got {
		w := want[i%3]
		if i == 3 {
			w.End += 10 * time.Millisecond
		}
		if r != w {
			t.Errorf("%d: %+v: want %+v", i, r, w)
		}
	}
	for _, tt := range []struct{ old, new, want string }{
		{"recording: run.rec", "recording: run.rec, rate: 5", "clients[0].rate"},
		{"recording: run.rec", "recording: run.rec, mix: [{class: search, share: 1}]", "clients[0].mix"},
		{"run.rec", "a.yaml", "no such file"},
	} {
		if _, err := parse(strings.Replace(text, tt.old, tt.new, 1)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v: want %s", tt.new, err, tt.want)
		}
	}
}
