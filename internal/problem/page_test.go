package problem_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/problem"
)

func TestPrefersHTML(t *testing.T) {
	for _, tt := range []struct {
		who    string
		accept []string
		want   bool
	}{
		{"Chrome", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"}, true},
		{"Firefox", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
		{"old Firefox", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8"}, true},
		{"Safari", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
		{"Edge of old", []string{"text/html, application/xhtml+xml, image/jxr, */*"}, true},
		{"lynx", []string{"text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"}, true},
		{"an image in a browser", []string{"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"}, false},
		{"fetch, curl, Go without Accept-Encoding", []string{"*/*"}, false},
		{"no Accept", nil, false},
		{"axios", []string{"application/json, text/plain, */*"}, false},
		{"jQuery", []string{"application/json, text/javascript, */*; q=0.01"}, false},
		{"text of any kind", []string{"text/*"}, false},
		{"JSON before", []string{"application/json, text/html;q=0.9"}, false},
		{"JSON after", []string{"text/html, application/json;q=0.9"}, true},
		{"the same weight", []string{"text/html, application/json"}, false},
		{"problems", []string{"text/html;q=0.5, application/problem+json"}, false},
		{"no page, please", []string{"text/html;q=0, */*"}, false},
		{"no page, please, in full", []string{"text/html;q=0.000"}, false},
		{"the least that there is", []string{"text/html;q=0.001"}, true},
		{"parameters before the weight", []string{"text/html;level=1;q=0.4, application/json;q=0.3"}, true},
		{"parameters that are not the weight", []string{"text/html;quality=0"}, true},
		{"several lines", []string{"application/json;q=0.2", "text/html;q=0.3"}, true},
		{"several lines, the other way", []string{"text/html;q=0.3", "application/json"}, false},
		{"the best of several", []string{"text/html;q=0.1, text/html;q=0.9, application/json;q=0.5"}, true},
		{"any spelling", []string{" TEXT/HTML ; Q=0.5 ;, ;;,"}, true},
		{"no number", []string{"text/html;q=much"}, false},
		{"too much", []string{"text/html;q=2"}, false},
		{"less than nothing", []string{"text/html;q=-1"}, false},
		{"not a number", []string{"text/html;q=NaN"}, false},
		{"JSON as much as is not a number", []string{"text/html;q=0.1, application/json;q=NaN"}, true},
		{"infinitely much", []string{"text/html;q=Inf"}, false},
		{"an empty weight", []string{"text/html;q="}, false},
		{"rubbish", []string{"\xff;=,;q,,/html,text/htmlx,xtext/html"}, false},
		{"an empty header", []string{""}, false},
		{"a huge header", []string{strings.Repeat("a/b,", 1<<16) + "text/html"}, true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if tt.accept != nil {
			r.Header["Accept"] = tt.accept
		}
		w := httptest.NewRecorder()
		problem.New(503, problem.ReducedCapacity, "queue_full", "full").Write(w, r, nil)
		h := w.Header()
		page := strings.HasPrefix(w.Body.String(), "<!doctype html>")
		if page != tt.want || (h.Get("Content-Type") == "text/html; charset=utf-8") != tt.want ||
			h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) || w.Code != 503 {
			t.Errorf("%s, %.80q: %v %.50q: want a page %v", tt.who, tt.accept, h, w.Body, tt.want)
		}
	}
}

// What the reason says is text, in a page as in JSON.
func TestEscapes(t *testing.T) {
	p := problem.New(503, problem.Blank, "a", `<script>"&'</script>`)
	for accept, want := range map[string]string{
		"text/html": "&lt;script&gt;&#34;&amp;&#39;&lt;/script&gt;",
		"*/*":       `\u003cscript\u003e\"\u0026'\u003c/script\u003e`,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		p.Write(w, r, nil)
		if s := w.Body.String(); !strings.Contains(s, want) || strings.Contains(s, "<script>") {
			t.Errorf("%s: %s: want %s", accept, s, want)
		}
	}
}

func TestAPageSaysWhenToComeBack(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "in a second.", time.Second: "in a second.", 90 * time.Second: "in 90 seconds.", 2 * time.Minute: "in 120 seconds.",
		2*time.Minute + 1: "in 3 minutes.", 2 * time.Hour: "in 120 minutes.", 2*time.Hour + 1: "in 3 hours.",
		48 * time.Hour: "in 48 hours.", 48*time.Hour + 1: "in 3 days.",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		problem.New(503, problem.Blank, "a", "b").Write(w, r, problem.RetryAfter(d))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%v: %s: want %q", d, w.Body, want)
		}
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	problem.New(503, problem.Blank, "a", "b").Write(w, r, nil)
	if strings.Contains(w.Body.String(), "again") {
		t.Errorf("never: %s", w.Body)
	}
}

// HEAD gets the headers of GET, in both forms.
func TestHeadIsAsGet(t *testing.T) {
	p := problem.New(503, problem.Blank, "a", "b")
	for _, accept := range []string{"text/html", "*/*"} {
		var h [2]http.Header
		for i, method := range []string{"GET", "HEAD"} {
			r := httptest.NewRequest(method, "/", nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			p.Write(w, r, problem.RetryAfter(0))
			if h[i] = w.Header(); (w.Body.Len() > 0) != (i == 0) {
				t.Errorf("%s: %s", method, w.Body)
			}
		}
		for name := range h[0] {
			if h[0].Get(name) != h[1].Get(name) {
				t.Errorf("%s: %q, %q", name, h[0].Get(name), h[1].Get(name))
			}
		}
	}
}

// zipped is a ResponseWriter that compresses, as outer handlers do.
type zipped struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (z zipped) Write(p []byte) (int, error) { return z.z.Write(p) }

func TestAnEncodingInFrontIsReadable(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		problem.New(503, problem.Blank, "a", "b").Write(zipped{w, z}, r, nil)
	}))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL) // reads gzip
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(b), `"detail":"b"`) {
		t.Errorf("%q, %v", b, err)
	}
}

// All responses share the header values: appending to those of one response does
// not change another's.
func TestAnswersDoNotChange(t *testing.T) {
	p := problem.New(503, problem.Blank, "a", "b")
	for range 2 {
		w := httptest.NewRecorder()
		p.Write(w, httptest.NewRequest("GET", "/", nil), problem.RetryAfter(time.Second))
		for name, values := range w.Header() {
			if len(values) != 1 || cap(values) != 1 {
				t.Errorf("%s: %q, with room for %d", name, values, cap(values))
			}
			w.Header().Add(name, "more")
		}
	}
}
