package httplimit

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/shape"
)

// A kibibyte a second for each client, after the first: so five take four
// seconds, by whichever method they are written.
func TestDownloadIsPaced(t *testing.T) {
	const size = 5 << 10
	body := strings.Repeat("x", size)
	for name, write := range map[string]func(w http.ResponseWriter) (int64, error){
		"Write": func(w http.ResponseWriter) (int64, error) {
			n, err := w.Write([]byte(body))
			return int64(n), err
		},
		"WriteString": func(w http.ResponseWriter) (int64, error) {
			n, err := io.WriteString(w, body)
			return int64(n), err
		},
		"ReadFrom": func(w http.ResponseWriter) (int64, error) { return io.Copy(w, bytes.NewReader([]byte(body))) },
		"Write and Flush": func(w http.ResponseWriter) (sum int64, err error) {
			for i := 0; i < size && err == nil; i += 512 {
				var n int
				n, err = w.Write([]byte(body[i : i+512]))
				sum += int64(n)
				w.(http.Flusher).Flush()
			}
			return sum, err
		},
	} {
		bubble(t, name, func(t *testing.T) {
			lim := bytesASecond(t)
			s := newSite(t, Config{Limiter: new(testrig.Limiter), Bandwidth: func(r *http.Request) (up, down shape.Limiter) { return nil, perClient(lim, r) }}, func(w http.ResponseWriter, _ *http.Request) {
				if n, err := write(w); n != size || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
			for _, client := range []string{"ada", "bob"} {
				began := time.Now()
				w := s.get(200, "/", "X-Client: "+client)
				if d := time.Since(began); w.Body.Len() != size || d != 4*time.Second {
					t.Errorf("%s: %d bytes in %v: want %d in 4s", client, w.Body.Len(), d, size)
				}
			}
		})
	}
}

func TestUploadIsPaced(t *testing.T) {
	for _, length := range []int64{5 << 10, -1} { // known, so that it is received first, or not
		bubble(t, fmt.Sprint("length ", length), func(t *testing.T) {
			lim, closed := bytesASecond(t), 0
			s := newSite(t, Config{Limiter: new(testrig.Limiter), Bandwidth: func(r *http.Request) (up, down shape.Limiter) { return perClient(lim, r), nil }}, func(_ http.ResponseWriter, r *http.Request) {
				if n, err := io.Copy(io.Discard, r.Body); n != 5<<10 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				r.Body.Close()
			})
			began := time.Now()
			r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 5<<10)))
			r.Body, r.ContentLength = closing{r.Body, &closed}, length
			r.Header.Set("X-Client", "ada")
			s.do(r)
			if d := time.Since(began); d != 4*time.Second || closed != 1 {
				t.Errorf("it took %v, and the body was closed %d times: want 4s, 1", d, closed)
			}
		})
	}
}

type closing struct {
	io.ReadCloser
	n *int
}

func (c closing) Close() error {
	*c.n++
	return c.ReadCloser.Close()
}

// Without a limiter, bodies are not paced, and neither are requests without one.
func TestUnpaced(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		none := func(*http.Request) (up, down shape.Limiter) { return nil, nil }
		began := time.Now()
		s := newSite(t, Config{Bandwidth: none}, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, r.Body)
		})
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 1<<20))))
		s.get(200, "/")
		if w.Body.Len() != 1<<20 || time.Since(began) != 0 {
			t.Errorf("%d bytes in %v", w.Body.Len(), time.Since(began))
		}
	})
}

func perClient(lim *keyed.Limiter[string], r *http.Request) shape.Limiter {
	return lim.For(r.Header.Get("X-Client"))
}

// bytesASecond is a kibibyte a second for each key.
func bytesASecond(t *testing.T) *keyed.Limiter[string] {
	lim, err := keyed.New[string](gcra.PerSecond(1<<10, 1<<10), keyed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}
