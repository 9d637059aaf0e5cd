package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/proxy"
)

// A 1xx answer takes nothing from the header of the final answer, such as the rates of the rules,
// and does not have them.
func TestEarlyAnswerKeepsHeader(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Link"] = []string{"</a>", "</b>"}
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.Copy(w, r.Body)
	}))
	defer origin.Close()
	front := httptest.NewServer(withRules(t, "rules: [{name: all, rate: 10/d}]", proxy.Config{Origins: []string{origin.URL}}))
	defer front.Close()
	for _, body := range []io.Reader{nil, strings.NewReader("body"), io.MultiReader(strings.NewReader("body"))} {
		var early []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			early = append(early, fmt.Sprint(code, h["Link"]))
			if len(h["Ratelimit"]) > 0 {
				t.Errorf("body %T: a 1xx answer with %v", body, h)
			}
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, "POST", front.URL, body)
		testrig.Must(t, err)
		resp, err := front.Client().Do(req)
		testrig.Must(t, err)
		resp.Body.Close()
		if fmt.Sprint(early) != "[103 [</a> </b>]]" {
			t.Errorf("body %T: early answers %q", body, early)
		}
		if h := resp.Header; resp.StatusCode != 200 || len(h["Ratelimit"]) != 1 || len(h["Ratelimit-Policy"]) != 1 || len(h["Link"]) > 0 {
			t.Errorf("body %T: %d, %v: want the rates", body, resp.StatusCode, h)
		}
	}
}

// A 1xx answer that comes after the Timeout does not reach the client, which has another answer.
func TestLateEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Timeout: s, Transport: origin(func(r *http.Request) (*http.Response, error) {
			time.Sleep(2 * s)
			return answer(200), httptrace.ContextClientTrace(r.Context()).Got1xxResponse(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</a>"}})
		})})
		w := &statuses{ResponseRecorder: httptest.NewRecorder()}
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		time.Sleep(5 * s)
		if fmt.Sprint(w.all) != "[504]" || w.Header().Get("Link") != "" {
			t.Errorf("%d, %v: want 504 only", w.all, w.Header())
		}
	})
}

// statuses records all statuses, also of 1xx answers.
type statuses struct {
	*httptest.ResponseRecorder
	all []int
}

func (w *statuses) WriteHeader(code int) {
	w.all = append(w.all, code)
	w.ResponseRecorder.WriteHeader(code)
}
