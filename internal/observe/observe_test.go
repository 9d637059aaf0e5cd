package observe_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/observe"
	"github.com/weir-go/weir/internal/outcome"
)

// hijackable is a ResponseWriter with or without Hijack.
type hijackable struct {
	*httptest.ResponseRecorder
	err error
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, h.err }

// plain is a ResponseWriter that can do nothing else.
type plain struct{ http.ResponseWriter }

func TestTheStatusIsSeenThroughEveryMethod(t *testing.T) {
	for _, tt := range []struct {
		rule string
		do   func(w http.ResponseWriter)
		want int
	}{
		{"nothing", func(http.ResponseWriter) {}, 0},
		{"headers only", func(w http.ResponseWriter) { w.Header().Set("A", "b") }, 0},
		{"WriteHeader", func(w http.ResponseWriter) { w.WriteHeader(404) }, 404},
		{"the first WriteHeader", func(w http.ResponseWriter) { w.WriteHeader(404); w.WriteHeader(500) }, 404},
		{"an early hint is no answer", func(w http.ResponseWriter) { w.WriteHeader(103) }, 0},
		{"what follows a hint is", func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(404) }, 404},
		{"Write", func(w http.ResponseWriter) { w.Write([]byte("x")) }, 200},
		{"Write of nothing", func(w http.ResponseWriter) { w.Write(nil) }, 200},
		{"Write, then WriteHeader", func(w http.ResponseWriter) { w.Write(nil); w.WriteHeader(404) }, 200},
		{"WriteHeader, then Write", func(w http.ResponseWriter) { w.WriteHeader(404); w.Write(nil) }, 404},
		{"WriteString", func(w http.ResponseWriter) { io.WriteString(w, "x") }, 200},
		{"ReadFrom", func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) }, 200},
		{"ReadFrom of nothing", func(w http.ResponseWriter) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("")) }, 200},
		{"Flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200},
		{"FlushError", func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }, 200},
		{"Hijack", func(w http.ResponseWriter) { w.(http.Hijacker).Hijack() }, observe.Hijacked},
		{"Hijack after an answer", func(w http.ResponseWriter) { w.WriteHeader(404); w.(http.Hijacker).Hijack() }, observe.Hijacked},
		{"Hijack, then WriteHeader", func(w http.ResponseWriter) { w.(http.Hijacker).Hijack(); w.WriteHeader(404) }, observe.Hijacked},
	} {
		var o observe.Writer
		begun := 0
		w := o.Observe(hijackable{ResponseRecorder: httptest.NewRecorder()})
		o.Begins = func() { begun++ }
		tt.do(w)
		want := 1
		if tt.want == 0 || tt.rule == "Hijack" || tt.rule == "Hijack, then WriteHeader" {
			want = 0
		}
		if o.Status != tt.want || begun != want {
			t.Errorf("%s: status %d, begun %d times: want %d, %d", tt.rule, o.Status, begun, tt.want, want)
		}
		o.Ended()
		if tt.want == 0 && (o.Status != 200 || begun != 1) {
			t.Errorf("%s: %d at the end", tt.rule, o.Status)
		}
	}
}

func TestAHijackThatFailsIsNone(t *testing.T) {
	var o observe.Writer
	w := o.Observe(hijackable{httptest.NewRecorder(), errors.New("no")})
	if _, _, err := w.(http.Hijacker).Hijack(); err == nil || o.Status != 0 {
		t.Errorf("%v, %d", err, o.Status)
	}
}

// Every method of writing passes the body on unchanged.
func TestEverythingIsHandedOn(t *testing.T) {
	rec := httptest.NewRecorder()
	var o observe.Writer
	w := o.Observe(rec)
	w.Header().Set("A", "b")
	w.WriteHeader(404)
	w.Write([]byte("1"))
	io.WriteString(w, "2")
	io.Copy(w, strings.NewReader("3"))
	w.(http.Flusher).Flush()
	if rec.Code != 404 || rec.Body.String() != "123" || !rec.Flushed || rec.Header().Get("A") != "b" {
		t.Errorf("%d %q %v", rec.Code, rec.Body, rec.Header())
	}
	if u := w.(interface{ Unwrap() http.ResponseWriter }).Unwrap(); u != rec {
		t.Errorf("Unwrap: %v", u)
	}
}

func TestAPacedBodyGoesElsewhere(t *testing.T) {
	rec, paced := httptest.NewRecorder(), new(strings.Builder)
	var o observe.Writer
	w := o.Observe(rec)
	o.Paced = paced
	w.Write([]byte("1"))
	io.WriteString(w, "2")
	io.Copy(w, strings.NewReader("3"))
	if rec.Body.Len() > 0 || paced.String() != "123" {
		t.Errorf("%q, %q", rec.Body, paced)
	}
}

func TestAWriterCanDoNoMoreThanTheOneBehindIt(t *testing.T) {
	for _, tt := range []struct {
		rule             string
		w                http.ResponseWriter
		flushes, hijacks bool
	}{
		{"nothing", plain{httptest.NewRecorder()}, false, false},
		{"flushes", httptest.NewRecorder(), true, false},
		{"flushes, and is hijacked", hijackable{ResponseRecorder: httptest.NewRecorder()}, true, true},
	} {
		var o observe.Writer
		w := o.Observe(tt.w)
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		if flushes != tt.flushes || hijacks != tt.hijacks {
			t.Errorf("%s: flushes %v, hijacks %v", tt.rule, flushes, hijacks)
		}
		if err := http.NewResponseController(w).Flush(); (err == nil) != tt.flushes {
			t.Errorf("%s: Flush: %v", tt.rule, err)
		}
	}
}

// wrapper is a ResponseWriter of a middleware, with Unwrap as its only ability.
type wrapper struct{ plain }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ends is an Owner that notes how responses last.
type ends []observe.Kind

func (e *ends) Lasts(k observe.Kind) { *e = append(*e, k) }

// What a handler does by http.ResponseController is seen, also if a middleware wraps
// the server's ResponseWriter.
func TestAResponseControllerIsSeen(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		do     func(*http.ResponseController) error
		status int
		kind   observe.Kind
	}{
		{"Flush", (*http.ResponseController).Flush, 200, observe.Body},
		{"Hijack", func(rc *http.ResponseController) error { _, _, err := rc.Hijack(); return err }, observe.Hijacked, observe.Upgrade},
	} {
		for n, behind := range []http.ResponseWriter{
			hijackable{ResponseRecorder: httptest.NewRecorder()},
			wrapper{plain{wrapper{plain{hijackable{ResponseRecorder: httptest.NewRecorder()}}}}},
		} {
			var o observe.Writer
			w, seen := o.Observe(behind), new(ends)
			o.Owner = seen
			if err := tt.do(http.NewResponseController(w)); err != nil || o.Status != tt.status || len(*seen) != 1 || (*seen)[0] != tt.kind {
				t.Errorf("%s, %d wrappers: %v, status %d, %v: want %d, %v", tt.rule, 2*n, err, o.Status, *seen, tt.status, tt.kind)
			}
		}
	}
	var o observe.Writer
	w := o.Observe(wrapper{plain{httptest.NewRecorder()}})
	if _, ok := w.(http.Flusher); ok {
		t.Error("a Flusher in front of a wrapper that is none")
	}
}

func TestOwner(t *testing.T) {
	for _, w := range []http.ResponseWriter{plain{}, httptest.NewRecorder(), hijackable{}} {
		if o := observe.OwnerOf(w); o != nil {
			t.Errorf("%T has the owner %v", w, o)
		}
		var o observe.Writer
		seen := o.Observe(w)
		o.Owner = t
		if observe.OwnerOf(seen) != t {
			t.Errorf("of %T: %v", w, observe.OwnerOf(seen))
		}
	}
}

func TestOutcome(t *testing.T) {
	in := context.Background()
	gone, leave := context.WithCancel(in)
	leave()
	late, cancel := context.WithDeadline(in, time.Unix(0, 0))
	defer cancel()
	for _, tt := range []struct {
		ctx    context.Context
		status int
		want   weir.Outcome
	}{
		{in, 200, weir.Success}, {in, 204, weir.Success}, {in, 304, weir.Success}, {in, 399, weir.Success},
		{in, 400, weir.Ignored}, {in, 404, weir.Ignored}, {in, 500, weir.Ignored}, {in, 501, weir.Ignored}, {in, 599, weir.Ignored},
		{in, 429, weir.Ignored}, {in, 502, weir.Ignored}, {in, 503, weir.Dropped}, {in, 504, weir.Dropped},
		{in, observe.Hijacked, weir.Ignored}, {in, 0, weir.Ignored},
		{gone, 200, outcome.Gone}, {gone, 503, outcome.Gone}, {gone, observe.Hijacked, outcome.Gone},
		{late, 200, outcome.Late}, {late, 404, outcome.Late}, {late, 503, outcome.Late},
	} {
		if got := observe.Outcome(tt.ctx, tt.status); got != tt.want {
			t.Errorf("%d, %v: %v: want %v", tt.status, tt.ctx.Err(), got, tt.want)
		}
	}
}
