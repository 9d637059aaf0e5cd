package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

// over serves a handler, behind a Middleware, by HTTP/1 and HTTP/2.
func over(t *testing.T, h http.HandlerFunc, test func(t *testing.T, version int, srv *httptest.Server, v *testrig.Limiter)) {
	t.Helper()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			v := new(testrig.Limiter)
			s := newSite(t, Config{Limiter: v}, h)
			var running sync.WaitGroup
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				running.Add(1)
				defer running.Done()
				s.handler.ServeHTTP(w, r)
			}))
			srv.EnableHTTP2 = version == 2
			srv.StartTLS()
			defer srv.Close()
			test(t, version, srv, v)
			running.Wait()
			v.WantHeld(t, 0, "at the end")
		})
	}
}

// What the server's own ResponseWriter can do, so can ours, and no more.
func TestTheWriterIsAsCapableAsTheServers(t *testing.T) {
	over(t, func(w http.ResponseWriter, r *http.Request) {
		_, hijacks := w.(http.Hijacker)
		_, flushes := w.(http.Flusher)
		_, reads := w.(io.ReaderFrom)
		_, strings := w.(io.StringWriter)
		if hijacks != (r.ProtoMajor == 1) || !flushes || !reads || !strings {
			t.Errorf("hijacks %v, flushes %v, reads %v, writes strings %v", hijacks, flushes, reads, strings)
		}
		rc := http.NewResponseController(w)
		later := time.Now().Add(time.Hour)
		if err := errors.Join(rc.SetReadDeadline(later), rc.SetWriteDeadline(later), rc.EnableFullDuplex()); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "hello")
		if err := rc.Flush(); err != nil {
			t.Error(err)
		}
		if r.ProtoMajor == 2 {
			if _, _, err := rc.Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("Hijack over HTTP/2: %v", err)
			}
		}
	}, func(t *testing.T, _ int, srv *httptest.Server, _ *testrig.Limiter) {
		if body := read(t, fetchFrom(t, srv, testrig.Request("GET", "/"))); body != "hello" {
			t.Errorf("%q", body)
		}
	})
}

// What is flushed is there before the handler has ended.
func TestStreaming(t *testing.T) {
	next := make(chan bool)
	over(t, func(w http.ResponseWriter, r *http.Request) {
		for n := range 3 {
			fmt.Fprint(w, n)
			w.(http.Flusher).Flush()
			<-next
		}
	}, func(t *testing.T, _ int, srv *httptest.Server, v *testrig.Limiter) {
		resp := fetchFrom(t, srv, testrig.Request("GET", "/"))
		for n := range 3 {
			b := make([]byte, 1)
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != fmt.Sprint(n) {
				t.Errorf("%q, %v", b, err)
			}
			v.WantHeld(t, 1, "while it streams")
			next <- true
		}
		read(t, resp)
	})
}

func TestResponsesOfAllKinds(t *testing.T) {
	over(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			w.WriteHeader(http.StatusNotModified)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("304: %v", err)
			}
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/trailers":
			w.Header().Set("Trailer", "Sum")
			io.WriteString(w, "hello")
			w.Header().Set("Sum", "5")
			w.Header().Set(http.TrailerPrefix+"Late", "yes")
		case "/hints":
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			io.WriteString(w, "hello")
		case "/length":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "hello")
		case "/continue":
			b, err := io.ReadAll(r.Body)
			fmt.Fprint(w, string(b), err)
		}
	}, func(t *testing.T, _ int, srv *httptest.Server, _ *testrig.Limiter) {
		for _, path := range []string{"/304", "/204", "/trailers", "/hints", "/length", "/nothing", "/continue"} {
			hints := 0
			out, _ := http.NewRequest("GET", srv.URL+path, nil)
			if path == "/continue" {
				out, _ = http.NewRequest("POST", srv.URL+path, strings.NewReader("hello"))
				out.Header.Set("Expect", "100-continue")
			}
			resp, err := srv.Client().Do(out.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints = code; return nil },
			})))
			testrig.Must(t, err)
			body := read(t, resp)
			resp.Body.Close()
			got := fmt.Sprint(path, " ", resp.StatusCode, " ", body, " ", resp.Trailer, " ", hints)
			want := map[string]string{
				"/304": "/304 304  map[] 0", "/204": "/204 204  map[] 0",
				"/trailers": "/trailers 200 hello map[Late:[yes] Sum:[5]] 0", "/hints": "/hints 200 hello map[] 103",
				"/length": "/length 200 hello map[] 0", "/nothing": "/nothing 200  map[] 0",
				"/continue": "/continue 200 hello<nil> map[] 100",
			}[path]
			if got != want || path == "/length" && resp.ContentLength != 5 {
				t.Errorf("%s, length %d: want %s", got, resp.ContentLength, want)
			}
		}
		for _, path := range []string{"/length", "/nothing"} {
			resp := fetchFrom(t, srv, testrig.Request("HEAD", path))
			if body := read(t, resp); resp.StatusCode != 200 || body != "" {
				t.Errorf("HEAD %s: %d %q", path, resp.StatusCode, body)
			}
		}
	})
}

// A rule's refusal asks for no body.
func TestARefusalAsksForNoBody(t *testing.T) {
	s := newSite(t, Config{Rules: []Rule{allow(t, "q", 0).Rule}, Limiter: new(testrig.Limiter)}, nil)
	srv := httptest.NewServer(s.handler)
	defer srv.Close()
	asked := false
	out, _ := http.NewRequest("POST", srv.URL, strings.NewReader("hello"))
	out.Header.Set("Expect", "100-continue")
	tr := &http.Transport{ExpectContinueTimeout: time.Hour}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(out.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got100Continue: func() { asked = true },
	})))
	testrig.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 429 || asked {
		t.Errorf("%d, asked for the body: %v", resp.StatusCode, asked)
	}
}

// A reading recorder notes whether it was handed a file.
type readingRecorder struct {
	*httptest.ResponseRecorder
	from []string
}

func (r *readingRecorder) ReadFrom(src io.Reader) (int64, error) {
	r.from = append(r.from, fmt.Sprintf("%T", src))
	return io.Copy(struct{ io.Writer }{r.ResponseRecorder}, src)
}

// A file is copied as the server copies files.
func TestFilesAreCopiedByTheServer(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	testrig.Must(t, os.WriteFile(name, []byte("hello"), 0o600))
	copies := func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if n, err := io.Copy(w, f); n != 5 || err != nil {
			t.Error(n, err)
		}
	}
	s := newSite(t, Config{Limiter: new(testrig.Limiter)}, copies)
	w := &readingRecorder{ResponseRecorder: httptest.NewRecorder()}
	s.handler.ServeHTTP(w, testrig.Request("GET", "/"))
	if len(w.from) != 1 || !strings.Contains(w.from[0], "fileWithoutWriteTo") || w.Body.String() != "hello" {
		t.Errorf("ReadFrom of %q: want one of a file; %q", w.from, w.Body)
	}
	over(t, copies, func(t *testing.T, _ int, srv *httptest.Server, _ *testrig.Limiter) {
		if body := read(t, fetchFrom(t, srv, testrig.Request("GET", "/"))); body != "hello" {
			t.Errorf("%q", body)
		}
	})
}
