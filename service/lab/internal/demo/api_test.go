package demo_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/demo"
)

// A watcher reads the stream of events as the page does.
type watcher struct {
	t     *testing.T
	lines *bufio.Scanner
}

func watch(t *testing.T, url string) watcher {
	t.Helper()
	resp, err := http.Get(url + "/api/events")
	testrig.Must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return watcher{t, lines}
}

// until reads events to a state that is ok, and returns it.
func (w watcher) until(what string, ok func(demo.State) bool) (s demo.State) {
	w.t.Helper()
	event := ""
	for w.lines.Scan() {
		if name, is := strings.CutPrefix(w.lines.Text(), "event: "); is {
			event = name
		}
		data, is := strings.CutPrefix(w.lines.Text(), "data: ")
		if !is || event != "state" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &s); err != nil {
			w.t.Fatal(err)
		}
		if ok(s) {
			return s
		}
	}
	w.t.Fatalf("the stream ended before %s: %v", what, w.lines.Err())
	return s
}

func live(t *testing.T, speed float64) (*demo.Live, string) {
	t.Helper()
	l, err := demo.NewLive(speed)
	testrig.Must(t, err)
	srv := httptest.NewServer(l.Handler())
	t.Cleanup(func() {
		l.Close()
		srv.Close()
	})
	return l, srv.URL
}

func set(t *testing.T, url, kind, body string) int {
	t.Helper()
	resp, err := http.Post(url+"/api/set", kind, strings.NewReader(body))
	testrig.Must(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

func TestSet(t *testing.T) {
	_, url := live(t, 10)
	w := watch(t, url)
	before := w.until("the first state", func(demo.State) bool { return true })
	if before.Experiment != "normal" || len(before.Experiments) != 5 || before.Client.TimeoutSeconds != 2.5 {
		t.Errorf("%+v", before)
	}
	for _, tt := range []struct {
		kind, body string
		status     int
	}{
		{"text/plain", `{"workers":3}`, 415}, // a form of another site could send this
		{"application/json", `{"workers":0}`, 400},
		{"application/json", `{"workers":-1}`, 400},
		{"application/json", `{"workers":1001}`, 400},
		{"application/json", `{"workers":9,"service_seconds":-1}`, 400},
		{"application/json", `{"workers":9,"service_seconds":61}`, 400},
		{"application/json", `{"workers":9,"proxy":"on"}`, 400},
		{"application/json", `{"experiment":"none"}`, 400},
		{"application/json", `{"experiment":"slow","workers":9}`, 400},
		{"application/json", `{"tour":true,"workers":9}`, 400},
		{"application/json", `{"tour":true,"experiment":"slow"}`, 400},
		{"application/json", `{"wokers":9}`, 400},
		{"application/json", `{`, 400},
		{"application/json", `{"workers":3}`, 204},
	} {
		if got := set(t, url, tt.kind, tt.body); got != tt.status {
			t.Errorf("%s: %d: want %d", tt.body, got, tt.status)
		}
	}
	after := w.until("the next state", func(demo.State) bool { return true })
	if want := (demo.Setup{Workers: 3, ServiceSeconds: 1, Proxy: demo.Off}); after.Settings != want || after.Experiment != "" {
		t.Errorf("%+v: want %+v, and nothing of what was refused", after.Settings, want)
	}
}

// The tour waits for the first page, unless a user has changed the setup before.
func TestTourAwaitsViewer(t *testing.T) {
	for _, touched := range []bool{false, true} {
		l, url := live(t, 10)
		l.AwaitViewer()
		if touched {
			if got := set(t, url, "application/json", `{"experiment":"fixed"}`); got != 204 {
				t.Fatal(got)
			}
		}
		s := watch(t, url).until("the first state", func(demo.State) bool { return true })
		if began := s.Phase == demo.Normal; began == touched || touched && s.Experiment != "fixed" {
			t.Errorf("phase %q, experiment %q: touched %v", s.Phase, s.Experiment, touched)
		}
		if s := watch(t, url).until("the first state", func(demo.State) bool { return true }); len(s.Changes) > 2 {
			t.Errorf("%v: a second page begins another tour", s.Changes)
		}
	}
}

// A change of the setup ends the tour, and a refused one does not.
func TestTourGivesWay(t *testing.T) {
	l, url := live(t, 50)
	w := watch(t, url)
	testrig.Must(t, l.Steer(demo.Steer{Tour: true}))
	w.until("the tour begins", func(s demo.State) bool { return s.Phase == demo.Normal && s.Client == demo.TourClient })
	if err := l.Steer(demo.Steer{Setup: demo.Setup{Workers: -1}}); err == nil {
		t.Error("-1 workers are accepted")
	}
	w.until("the slow release", func(s demo.State) bool { return s.Phase == demo.Overload && s.Settings.ServiceSeconds == 2 })
	testrig.Must(t, l.Steer(demo.Steer{Setup: demo.Setup{Workers: 3}}))
	last := w.until("60 s have gone by", func(s demo.State) bool {
		if len(s.Samples) < 60 {
			_ = l.Steer(demo.Steer{Setup: demo.Setup{Workers: 3}}) // asks for another state
		}
		return len(s.Samples) >= 60
	})
	if last.Settings.Proxy != demo.Off || last.Phase != "" {
		t.Errorf("%+v in phase %q: the tour went on", last.Settings, last.Phase)
	}
}

func TestViewersAreBounded(t *testing.T) {
	_, url := live(t, 1)
	refused := 0
	for range 70 {
		resp, err := http.Get(url + "/api/events")
		testrig.Must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode == 503 {
			refused++
		}
	}
	if refused != 6 {
		t.Errorf("%d refused: want 6 of 70", refused)
	}
}
