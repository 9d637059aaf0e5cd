package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

func set(h http.Handler, kind, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/-/set", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	h.ServeHTTP(w, r)
	return w
}

func fetch(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestSet(t *testing.T) {
	const form, object = "application/x-www-form-urlencoded", "application/json"
	p := newProxy(t, proxy.Config{Limit: proxy.FixedLimit(3), Queue: 4, MaxWait: s, Auto: limit.Config{Initial: 9}})
	admin := p.Admin()
	for _, tt := range []struct {
		kind, body string
		status     int
		want       string // in the answer, spaces apart
	}{
		{form, "limit=7", 200, `"limit":7,"queue":4,"max_wait":"1s","limit_now":7`},
		{object, `{"limit":"auto"}`, 200, `"limit":"auto","queue":4,"max_wait":"1s","limit_now":9`},
		{object, `{"limit":2,"queue":0,"max_wait":"250ms"}`, 200, `"limit":2,"queue":0,"max_wait":"250ms"`},
		{form, "max_wait=0s&queue=5", 200, `"limit":2,"queue":5,"max_wait":"0s"`},
		{form, `{"limit":8}`, 200, `"limit":8`}, // as curl -d sends it
		{object, `{"limit":-1}`, 400, `limit="-1":mustbeauto,aimd,vegas,gradient2orawholenumber>=0;nothingwaschanged`},
		{object, `{"limit":"aimd"}`, 200, `"limit":"aimd","queue":5,"max_wait":"0s"`},
		{form, "class=default&limit=8", 200, `"limit":8`},
		{object, `{"class":"api","limit":1}`, 400, `class="api":thereisnosuchclasswithalimit;therearedefault;`},
		{object, `{"class":"default"}`, 400, `nothingtoset`},
		{object, `{"limit":1,"queue":-1}`, 400, `queue=-1:mustbe>=0`},
		{object, `{"limit":1,"max_wait":"-1s"}`, 400, `max_wait=-1s:mustbe>=0`},
		{object, `{"max_wait":"soon"}`, 400, `"soon"isnotaduration`},
		{object, `{"limt":1}`, 400, `unknownfield"limt"`},
		{object, `{"limit":1} x`, 400, `somethingaftertheJSONobject`},
		{object, `{"limit":1}}`, 400, `somethingaftertheJSONobject`},
		{object, `limit=1`, 400, `nothingwaschanged`},
		{object, `{"limit":`, 400, `nothingwaschanged`},
		{object, `null`, 400, `nothingtoset`},
		{object, `{}`, 400, `nothingtoset`},
		{form, "", 400, `nothingtoset`},
		{form, "limit=1&limit=2", 400, `limitisgiven2times`},
		{object, `{"limit":"` + strings.Repeat("x", 2<<20) + `"}`, 413, `toolarge`},
	} {
		w := set(admin, tt.kind, tt.body)
		if got := strings.Join(strings.Fields(w.Body.String()), ""); w.Code != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%.60s: %d, %s: want %d, %s", tt.body, w.Code, got, tt.status, tt.want)
		}
	}
	for path, want := range map[string]int{"/-/set?queue=5": 200, "/-/set?queue=six": 400, "/-/set": 400} {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("POST %s: %d, %s: want %d", path, w.Code, w.Body, want)
		}
	}
	if st := p.Settings(); st.LimitNow != 8 || st.Queue != 5 || st.MaxWait != 0 {
		t.Errorf("%+v: what was refused has left a trace", st)
	}
	if w := fetch(admin, "/-/set"); w.Code != 200 || !strings.Contains(w.Body.String(), `"limit": 8`) {
		t.Errorf("GET: %d, %s", w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	admin.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/-/set", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("DELETE: %d, %v", w.Code, w.Header())
	}
}

func TestHealthAndReady(t *testing.T) {
	p := newProxy(t, proxy.Config{})
	check := func(path string, status int) {
		t.Helper()
		if w := fetch(p.Admin(), path); w.Code != status {
			t.Errorf("%s: %d: want %d", path, w.Code, status)
		}
	}
	check("/-/health", 200)
	check("/-/ready", 200)
	p.Drain()
	check("/-/health", 200)
	check("/-/ready", 503)
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 200
		p := newProxy(t, proxy.Config{Transport: origin(func(r *http.Request) (*http.Response, error) {
			return answers(status, s)(r)
		}), Auto: limit.Config{Initial: 8, Max: 8}, Queue: -1})
		ask(t.Context(), p) // a refusal counts as much as of a success's time it took
		status = 503
		for range 9 {
			go ask(t.Context(), p)
		}
		synctest.Wait()
		check := func(name, labels string, want float64) {
			t.Helper()
			families, err := expfmtParser().TextToMetricFamilies(fetch(p.Admin(), "/metrics").Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range families[name].GetMetric() {
				var got []string
				for _, l := range m.GetLabel() {
					got = append(got, l.GetName()+"="+l.GetValue())
				}
				if strings.Join(got, " ") != labels {
					continue
				}
				v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				if v != want {
					t.Errorf("%s{%s} = %v: want %v", name, labels, v, want)
				}
				return
			}
			t.Errorf("there is no %s{%s}", name, labels)
		}
		check("weir_proxy_limit", "", 8)
		check("weir_proxy_inflight", "", 8)
		check("weir_proxy_waiting", "", 0)
		check("weir_proxy_abandoned", "", 0)
		check("weir_proxy_connections", "", 0)
		check("weir_proxy_long_lived_max", "", 2000)
		check("weir_proxy_class_bound", "class=default of=min_limit", 1)
		check("weir_proxy_class_bound", "class=default of=queue", 0)
		check("weir_proxy_decisions_total", "decision=admit reason=", 9)
		check("weir_proxy_decisions_total", "decision=reject reason=over_limit", 1)
		check("weir_proxy_wait_seconds", "", 9)
		time.Sleep(2 * s)
		check("weir_proxy_inflight", "", 0)
		check("weir_proxy_outcomes_total", "outcome=success", 1)
		check("weir_proxy_outcomes_total", "outcome=dropped", 8)
		check("weir_proxy_limit_changes_total", "cause=dropped", 1)
		check("weir_proxy_origin_duration_seconds", "", 9)
	})
}

func expfmtParser() *expfmt.TextParser {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return &p
}
