package origin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weir-go/weir/service/lab/internal/origin"
)

const (
	form = "application/x-www-form-urlencoded"
	js   = "application/json"
)

func (s *scene) ask(method, target, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

func TestSetOverHTTP(t *testing.T) {
	const all = `{"workers":20,"service_time":"2s","distribution":"normal","cv":0.2,"queue":0,"failure_rate":0.1,"cancel_abandoned":true}`
	want := map[string]any{
		"workers": 20.0, "service_time": "2s", "distribution": "normal", "cv": 0.2, "queue": 0.0,
		"failure_rate": 0.1, "cancel_abandoned": true, "inflight": 0.0, "waiting": 0.0,
	}
	for _, tt := range []struct{ how, target, kind, body string }{
		{"JSON", "/-/set", js, all},
		{"JSON as curl -d sends it", "/-/set", form, all},
		{"form", "/-/set", form, "workers=20&service_time=2s&distribution=normal&cv=0.2&queue=0&failure_rate=0.1&cancel_abandoned=true"},
		{"query", "/-/set?workers=20&service_time=2s&distribution=normal&cv=0.2&queue=0&failure_rate=0.1&cancel_abandoned=true", "", ""},
		{"form and query", "/-/set?workers=20&service_time=2s&distribution=normal", form, "cv=0.2&queue=0&failure_rate=0.1&cancel_abandoned=true"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			play(t, origin.Config{Workers: 7, Queue: 100}, func(t *testing.T, s *scene) {
				for _, rec := range []*httptest.ResponseRecorder{
					s.ask("POST", tt.target, tt.kind, tt.body), s.ask("GET", "/-/set", "", ""),
				} {
					got := map[string]any{}
					if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 || rec.Header().Get("Content-Type") != js {
						t.Fatalf("%d %v %s, %v", rec.Code, rec.Header(), rec.Body, err)
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%v: want %v", got, want)
					}
				}
			})
		})
	}
}

func TestSetRefuses(t *testing.T) {
	play(t, origin.Config{Workers: 7, ServiceTime: every(time.Second), Queue: 100}, func(t *testing.T, s *scene) {
		before := s.Settings()
		for _, tt := range []struct {
			target, kind, body string
			status             int
			want               string // in the answer
		}{
			{"/-/set", js, `{"queue":1,"wokers":20}`, 400, "wokers"},
			{"/-/set", js, `{"queue":1,"workers":"many"}`, 400, "workers"},
			{"/-/set", js, `{"queue":1,"workers":2.5}`, 400, "workers"},
			{"/-/set", js, `{"queue":1,"workers":0}`, 400, "origin: workers = 0: must be in [1, 100000]"},
			{"/-/set", js, `{"queue":1,"workers":-1}`, 400, "origin: workers = -1: must be"},
			{"/-/set", js, `{"workers":1,"queue":-1}`, 400, "origin: queue = -1: must be"},
			{"/-/set", js, `{"queue":1,"service_time":"2"}`, 400, `"2" is not a duration`},
			{"/-/set", js, `{"queue":1,"service_time":"-1s"}`, 400, "origin: service_time = -1s: must be"},
			{"/-/set", js, `{"queue":1,"distribution":"pareto"}`, 400, `origin: distribution = "pareto": must be`},
			{"/-/set", js, `{"queue":1,"cv":0.5}`, 400, "origin: cv = 0.5: must be 0, or left out, if the distribution is constant"},
			{"/-/set", js, `{"queue":1,"distribution":"exponential","cv":0.5}`, 400, "origin: cv = 0.5: must be 1"},
			{"/-/set", js, `{"queue":1,"distribution":"lognormal"}`, 400, "origin: cv = 0: must be in (0, 10]"},
			{"/-/set", js, `{"queue":1,"distribution":"normal","cv":0.5}`, 400, "origin: cv = 0.5: must be in (0, 0.3]"},
			{"/-/set", js, `{"queue":1,"failure_rate":-0.1}`, 400, "origin: failure_rate = -0.1: must be"},
			{"/-/set", js, `{"queue":1`, 400, "cannot read the settings"},
			{"/-/set", js, ``, 400, "nothing to set"},
			{"/-/set?queue=1&workers=0", "", "", 400, "origin: workers = 0"},
			{"/-/set?queue=1&workers=a&workers=b", "", "", 400, "workers is given 2 times"},
			{"/-/set?queue=1&failure_rate=NaN", "", "", 400, "failure_rate"},
			{"/-/set?queue=1", form, "wokers=20", 400, "wokers"},
			{"/-/set", form, ``, 400, "nothing to set"},
			{"/-/set", js, `{"distribution":"` + strings.Repeat("a", 1<<20) + `"}`, 413, "too large"},
		} {
			rec := s.ask("POST", tt.target, tt.kind, tt.body)
			line := rec.Body.String()
			if rec.Code != tt.status || !strings.Contains(line, tt.want) || strings.Count(line, "\n") != 1 {
				t.Errorf("%s %.60s: %d %q: want %d and a line with %q", tt.target, tt.body, rec.Code, line, tt.status, tt.want)
			}
			if after := s.Settings(); after != before {
				t.Fatalf("%s %.60s: %+v: want %+v as before", tt.target, tt.body, after, before)
			}
		}
	})
}

func TestRoutes(t *testing.T) {
	play(t, origin.Config{Workers: 1}, func(t *testing.T, s *scene) {
		for _, tt := range []struct {
			method, path string
			status       int
			allow        string
		}{
			{"GET", "/-/health", 200, ""},
			{"POST", "/-/health", 405, "GET, HEAD"},
			{"PUT", "/-/set", 405, "GET, HEAD, POST"},
			{"HEAD", "/-/set", 200, ""},
			{"GET", "/metrics", 200, ""},
			{"POST", "/metrics", 405, "GET, HEAD"},
			{"GET", "/-/sett", 404, ""},
		} {
			rec := s.ask(tt.method, tt.path, "", "")
			if rec.Code != tt.status || rec.Header().Get("Allow") != tt.allow {
				t.Errorf("%s %s: %d, Allow: %q: want %d, %q", tt.method, tt.path, rec.Code, rec.Header().Get("Allow"), tt.status, tt.allow)
			}
		}
		if n := len(s.ended()); n != 0 {
			t.Errorf("%d requests were taken for work", n)
		}
	})
}

func TestMetrics(t *testing.T) {
	cfg := origin.Config{Workers: 2, ServiceTime: every(2 * second), Queue: 3}
	play(t, cfg, func(t *testing.T, s *scene) {
		fresh := s.ask("GET", "/metrics", "", "").Body.String()
		wantSeries(t, fresh, `weir_origin_requests_total{status="200"} 0`, `weir_origin_requests_total{status="503"} 0`,
			`weir_origin_abandoned_total 0`, `weir_origin_workers 2`)

		left, leave := context.WithCancel(t.Context())
		s.arrive(left)
		s.arriveTimes(t, 5) // 2 work, 3 wait, 1 is refused
		leave()
		time.Sleep(3 * second) // 2 are done, and 2 more begun
		text := s.ask("GET", "/metrics", "", "").Body.String()
		wantSeries(t, text,
			`weir_origin_requests_total{status="200"} 2`,
			`weir_origin_requests_total{status="503"} 1`,
			`weir_origin_request_duration_seconds_bucket{le="1.5"} 0`,
			`weir_origin_request_duration_seconds_bucket{le="1.95"} 0`,
			`weir_origin_request_duration_seconds_bucket{le="2.05"} 2`,
			`weir_origin_request_duration_seconds_sum 4`,
			`weir_origin_request_duration_seconds_count 2`,
			`weir_origin_inflight 2`,
			`weir_origin_waiting 1`,
			`weir_origin_workers 2`,
			`weir_origin_abandoned_total 1`,
		)
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("Prometheus' own linter: %v, %v", problems, err)
		}
		s.ended()
	})
}

func wantSeries(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

// The metrics have every status of answers.
func TestEveryStatusIsCounted(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(second), CancelAbandoned: true}
	play(t, cfg, func(t *testing.T, s *scene) {
		left, leave := context.WithCancel(t.Context())
		s.arrive(left)        // 499
		s.arrive(t.Context()) // 503
		leave()
		time.Sleep(second)
		s.arrive(t.Context()) // 200
		time.Sleep(2 * second)
		s.change(t, origin.Change{FailureRate: new(1.0), ServiceTime: lasting(0)})
		s.arrive(t.Context())                                                              // 500
		s.ask("POST", "/", "", strings.Repeat("a", 10<<20+1))                              // 413
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", brokenOff{})) // 400
		text := s.ask("GET", "/metrics", "", "").Body.String()
		for _, d := range s.ended() {
			wantSeries(t, text, fmt.Sprintf(`weir_origin_requests_total{status="%d"} 1`, d.Status))
		}
		want := origin.Stats{Workers: 1, Abandoned: 1, Ended: map[int]uint64{200: 1, 500: 1, 503: 1, 499: 1, 400: 1, 413: 1}}
		if got := s.Stats(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: want %+v", got, want)
		}
	})
}

type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
