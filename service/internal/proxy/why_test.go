package proxy_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// Work is wasted if its client does not get the answer. A client that ends a stream has had it.
func TestWasted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cfg    proxy.Config
		path   string
		leaves time.Duration // the client
		want   uint64
	}{
		{"the client stays", proxy.Config{}, "/", time.Hour, 0},
		{"the client leaves before the answer", proxy.Config{AbandonedHold: time.Minute}, "/", s / 2, 1},
		{"the client leaves, and the hold is over before the answer", proxy.Config{AbandonedHold: s / 10}, "/", s / 2, 1},
		{"the client leaves, and nothing is held", proxy.Config{AbandonedHold: -1}, "/", s / 2, 1},
		{"the time-out is over", proxy.Config{Timeout: s / 2}, "/", time.Hour, 1},
		{"the client leaves while the body comes", proxy.Config{}, "/brief", 1200 * time.Millisecond, 1},
		{"the client ends a stream", proxy.Config{}, "/events", 10 * s, 0},
		{"the client ends a long download", proxy.Config{}, "/download", 10 * s, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := tt.cfg
				cfg.Transport = origin(func(r *http.Request) (*http.Response, error) {
					resp, err := answers(200, s)(r)
					if err != nil || r.URL.Path == "/" {
						return resp, err
					}
					goesOn := time.Minute
					switch r.URL.Path {
					case "/brief":
						goesOn = s / 2
					case "/events":
						resp.Header.Set("Content-Type", "text/event-stream")
					}
					resp.Body, resp.ContentLength = &dribble{after: goesOn, ctx: r.Context()}, -1
					return resp, nil
				})
				p := withRules(t, "rules: []", cfg)
				ctx, leave := context.WithTimeout(t.Context(), tt.leaves)
				defer leave()
				r, err := proxyrule.ParseRequest(tt.path)
				testrig.Must(t, err)
				r.Body = http.NoBody
				p.ServeHTTP(&leaver{httptest.NewRecorder(), ctx}, r.WithContext(ctx))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if st, c := p.Stats(), p.class("default"); st.Wasted != tt.want || c.Wasted != tt.want {
					t.Errorf("%d wasted, %d of the class: want %d (%v)", st.Wasted, c.Wasted, tt.want, c.Outcomes)
				}
			})
		})
	}
}

// A leaver is a client that reads nothing after its context has ended.
type leaver struct {
	*httptest.ResponseRecorder
	ctx context.Context
}

func (l *leaver) Write(p []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	return l.ResponseRecorder.Write(p)
}

// The message, the log and the status name the limits that reject.
func TestRejecting(t *testing.T) {
	const classes = `
classes:
- {name: heavy, routes: /heavy, limit: 1, queue: 0}
- {name: light, routes: /light, limit: 1, queue: 0}
- {name: trial, routes: /trial, limit: 1, queue: 0, mode: shadow}
- {name: guest, routes: /guest}
`
	for _, tt := range []struct {
		name, rules, asks string // each second
		rejecting         string
		message           string
	}{
		{"one limit", "rules: []", "/a /a /a /a", "", "75 % of requests are rejected: the limit is used up"},
		{"one class of several", classes, "/heavy /heavy /heavy /heavy /light /trial /trial", "heavy", "43 % of requests are rejected: the limit of class heavy is used up"},
		{"a class that shares the limit of another", classes, "/guest /guest /guest /guest", "default", "75 % of requests are rejected: the limit of class default is used up"},
		{"two", classes, "/light /light /heavy /heavy /heavy /heavy", "heavy, light", "67 % of requests are rejected: the limits of several classes are used up (heavy, light)"},
		{"all together", classes + "total: {limit: 2, queue: 0}", "/heavy /light /guest /guest /guest", "total", "60 % of requests are rejected: the limit of all classes together is used up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(testrig.Buffer)
				p := withRules(t, tt.rules, proxy.Config{
					Limit: proxy.FixedLimit(1), Transport: answers(200, s/4), Logger: slog.New(slog.NewTextHandler(log, nil)),
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.Watch(ctx)
				time.Sleep(s / 2) // between its readings
				for range 15 {
					time.Sleep(s)
					for _, path := range strings.Fields(tt.asks) {
						go p.send(path)
						synctest.Wait()
					}
				}
				st := p.Status()
				if got := strings.Join(st.Rejecting, ", "); got != tt.rejecting || st.Message != tt.message {
					t.Errorf("%q, %q: want %q, %q", got, st.Message, tt.rejecting, tt.message)
				}
				if named := strings.Contains(log.String(), "rejecting="); named != (tt.rejecting != "") || tt.rejecting == "heavy" && !strings.Contains(log.String(), "rejecting=heavy") {
					t.Errorf("the log says %s", log)
				}
				time.Sleep(10 * s)
				if st := p.Status(); st.Condition != condition.Well || st.Rejecting != nil {
					t.Errorf("afterwards: %+v", st)
				}
			})
		})
	}
}

// Each class has its own metrics.
func TestClassMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "classes: [{name: heavy, routes: /heavy, limit: 1, queue: 5, max_wait: 5s}]", proxy.Config{Transport: answers(200, s), AbandonedHold: time.Minute})
		for range 2 {
			go p.send("/heavy")
			synctest.Wait()
		}
		time.Sleep(2 * s)
		for range 5 { // leave after 300 ms
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, leave)
			r, err := proxyrule.ParseRequest("/heavy")
			testrig.Must(t, err)
			r.Body = http.NoBody
			p.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
			leave()
			time.Sleep(2 * s)
		}
		body := fetch(p.Admin(), "/metrics").Body.String()
		for _, line := range []string{
			`weir_proxy_class_wait_seconds_bucket{class="heavy",le="0.001"} 6`,
			`weir_proxy_class_wait_seconds_bucket{class="heavy",le="1"} 7`,
			`weir_proxy_class_wait_seconds_sum{class="heavy"} 1`,
			`weir_proxy_class_wait_seconds_count{class="default"} 0`,
			`weir_proxy_wait_seconds_count 7`,
			`weir_proxy_class_wasted_total{class="heavy"} 5`,
			`weir_proxy_class_outcomes_total{class="heavy",outcome="success"} 2`,
			`weir_proxy_wasted_total 5`,
			`weir_proxy_class_patience_seconds{class="default"} 0`,
			`weir_proxy_class_patience_seconds{class="heavy"} 1`,
		} {
			if !strings.Contains(body, "\n"+line+"\n") {
				t.Errorf("no %s", line)
			}
		}
		if t.Failed() {
			t.Log(body)
		}
	})
}
