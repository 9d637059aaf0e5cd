package httpapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

func TestBatch(t *testing.T) {
	const lines = "Content-Type: application/x-ndjson"
	for name, tt := range map[string]struct {
		url, body string
		headers   []string
		status    int
		want      string
		fields    string
	}{
		"in order, each by itself": {
			body:   `{"requests":[{"key":"a","n":2},{"key":"b"},{"key":"a","n":2},{"key":"a"}]}`,
			status: 200,
			want: `{"ok":false,"results":[{"ok":true,"remaining":1},{"ok":true,"remaining":2},` +
				`{"ok":false,"reason":"over_rate","rule":"everybody","retry_after_ms":60000},{"ok":true,"remaining":0}]}`,
			fields: "Content-Type: application/json",
		},
		"a bare array":                 {body: `[{"n":1,"key":"a"}]`, status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":2}]}`},
		"none at all":                  {body: `{"requests":[]}`, status: 200, want: `{"ok":true,"results":[]}`},
		"what no wait helps":           {body: `[{"key":"a","n":4}]`, status: 200, want: `{"ok":false,"results":[{"ok":false,"reason":"over_burst","rule":"everybody"}]}`},
		"a check":                      {body: `[{"key":"a","n":0},{"key":"a","n":0}]`, status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":3},{"ok":true,"remaining":3}]}`},
		"where no rule matches":        {body: `[{"key":"free"}]`, status: 200, want: `{"ok":true,"results":[{"ok":true}]}`},
		"space around keys":            {body: `[{"key":" a\t"},{"key":"\u00a0a"}]`, status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":2},{"ok":true,"remaining":1}]}`},
		"space around everything":      {body: " \n[ \t{ \"key\" : \"a\" , \"n\" : 1 } \r\n ] \n", status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":2}]}`},
		"all, and all are allowed":     {body: `{"all":true,"requests":[{"key":"a","n":2},{"key":"b"}]}`, status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":1},{"ok":true,"remaining":2}]}`},
		"all, and one is denied":       {body: `{"all":true,"requests":[{"key":"a","n":2},{"key":"a","n":2},{"key":"b"}]}`, status: 429, want: `{"ok":false,"results":[{"ok":false,"reason":"batch_denied"},{"ok":false,"reason":"over_rate","rule":"everybody","retry_after_ms":60000},{"ok":false,"reason":"batch_denied"}]}`, fields: "Content-Type: application/json\nRetry-After: 60"},
		"all, and one never can be":    {url: "?all=1", body: `[{"key":"a","n":2},{"key":"a","n":4}]`, status: 429, want: `{"ok":false,"results":[{"ok":false,"reason":"batch_denied"},{"ok":false,"reason":"over_burst","rule":"everybody"}]}`, fields: "Content-Type: application/json"},
		"lines":                        {body: "{\"key\":\"a\"}\r\n\n  {\"key\":\"a\",\"n\":3}\n{\"key\":\"b\"}", headers: []string{lines}, status: 200, want: "{\"ok\":true,\"remaining\":2}\n{\"ok\":false,\"reason\":\"over_rate\",\"rule\":\"everybody\",\"retry_after_ms\":60000}\n{\"ok\":true,\"remaining\":2}", fields: lines},
		"all lines, and one is denied": {url: "?all=true", body: "{\"key\":\"a\"}\n{\"key\":\"a\",\"n\":3}\n", headers: []string{lines}, status: 429, want: "{\"ok\":false,\"reason\":\"batch_denied\"}\n{\"ok\":false,\"reason\":\"over_rate\",\"rule\":\"everybody\",\"retry_after_ms\":60000}", fields: lines + "\nRetry-After: 60"},
		"a type with parameters":       {body: `[{"key":"a"}]`, headers: []string{"Content-Type: Application/JSON; charset=utf-8"}, status: 200, want: `{"ok":true,"results":[{"ok":true,"remaining":2}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				three := allKeys(3, time.Minute, config.Fixed)
				three.Regex, three.Glob = "^.$", ""
				a := newSite(t, httpapi.Config{}, three).ask("POST", "/rate"+tt.url, tt.body, tt.headers...)
				if a.status != tt.status || strings.TrimSuffix(a.body, "\n") != tt.want {
					t.Errorf("%d\n%s\nwant %d\n%s", a.status, a.body, tt.status, tt.want)
				}
				if got := fields(a.header); tt.fields != "" && got != tt.fields {
					t.Errorf("%s\nwant\n%s", got, tt.fields)
				}
			})
		})
	}
}

// The ids of a batch can be settled like the ids of single requests.
func TestBatchIDs(t *testing.T) {
	for url, body := range map[string]string{
		"/rate":          `{"ids":true,"requests":[{"key":"a","n":3},{"key":"b","n":0},{"key":"b\n "}]}`,
		"/rate?ids=true": `[{"key":"a","n":3},{"key":"b","n":0},{"key":"b"}]`,
	} {
		synctest.Test(t, func(t *testing.T) {
			site := newSite(t, httpapi.Config{}, allKeys(3, time.Hour, config.Fixed))
			a := site.ask("POST", url, body)
			results := a.json["results"].([]any)
			ids := make([]string, len(results))
			for i := range results {
				ids[i], _ = results[i].(map[string]any)["request_id"].(string)
			}
			if ids[0] == "" || ids[1] != "" || ids[2] == "" {
				t.Errorf("%s", a.body)
			}
			(&step{method: "POST", url: "/rate/a/" + ids[0] + "?n=1", status: 200, body: `{"was":3,"charged":1}`}).take(t, site)
			(&step{method: "DELETE", url: "/rate/b/" + ids[2], status: 200, body: `{"was":1,"charged":0}`}).take(t, site)
			(&step{method: "GET", url: "/rate/a?n=0", status: 200, body: `{"remaining":2}`}).take(t, site)
		})
	}
}

// Of a batch that cannot be read nothing is taken, and the answer says where.
func TestBatchThatCannotBeRead(t *testing.T) {
	s := newSite(t, httpapi.Config{}, allKeys(3, time.Hour, config.Fixed))
	a := s.ask("POST", "/rate", "{\"requests\":[{\"key\":\"a\"},\n  {\"key\":\"ä\", \"m\":2}]}")
	if want := `cannot read the batch: line 2, column 15: unknown member "m": a request has key, n and at_most`; a.status != 400 || a.text("error") != want {
		t.Errorf("%d %s: want %s", a.status, a.body, want)
	}
	(&step{method: "GET", url: "/rate/a?n=0", status: 200, body: `{"remaining":3}`}).take(t, s)
}

// The greatest batch is answered whole, and one more is not read.
func TestBatchBounds(t *testing.T) {
	s := newSite(t, httpapi.Config{MaxBody: 1 << 20}, allKeys(100, time.Hour, ""))
	for _, n := range []int{0, 1, 255, 256, 1000, 10_000} {
		text := body(n)
		if a := s.ask("POST", "/rate?ids=1", text); a.status != 200 || len(a.json["results"].([]any)) != n || a.json["ok"] != true {
			t.Errorf("%d: %d %.100s", n, a.status, a.body)
		}
	}
	w := &kept{header: http.Header{}}
	s.ServeHTTP(w, newRequest("POST", "/rate?ids=1", body(10_000)))
	if len(w.body) < 600_000 || w.longest > 40_000 {
		t.Errorf("of %d bytes, %d were written at once", len(w.body), w.longest)
	}
	if a := s.ask("POST", "/rate", body(10_001)); a.status != 413 || a.text("error") != "a batch has at most 10000 requests" {
		t.Errorf("%d %.100s", a.status, a.body)
	}
	// A body that is not as long as it may be, but for space.
	for _, tt := range []struct{ length, status int }{{1 << 20, 200}, {1<<20 + 1, 413}} {
		text := `[{"key":"a"}]` + strings.Repeat(" ", tt.length-13)
		for _, known := range []bool{true, false} {
			r := newRequest("POST", "/rate", text)
			if !known {
				r.ContentLength = -1
			}
			w := &kept{header: http.Header{}}
			s.ServeHTTP(w, r)
			if w.status != tt.status {
				t.Errorf("%d bytes, known %v: %d %s", tt.length, known, w.status, w.body)
			}
		}
	}
}

// A kept answer is one that a handler has written; longest is the most that it
// has written at once.
type kept struct {
	header  http.Header
	status  int
	body    []byte
	longest int
}

func (k *kept) Header() http.Header    { return k.header }
func (k *kept) WriteHeader(status int) { k.status = status }
func (k *kept) Write(p []byte) (int, error) {
	k.body = append(k.body, p...)
	k.longest = max(k.longest, len(p))
	return len(p), nil
}

// Bodies that stand in memory at a time are bounded together.
func TestBodiesAtATime(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		site := newSite(t, httpapi.Config{MaxBody: 2 << 20, BodyTimeout: time.Minute}, allKeys(100, time.Hour, ""))
		w := serve(t, site)
		half := strings.Repeat(" ", 2000<<10)
		answers := make(chan int, 40)
		for range 40 {
			conn := w.Client(t, version)
			go func() {
				stalled, _ := io.Pipe() // it never goes on
				r, _ := http.NewRequest("POST", "http://weir/rate", struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader(half), stalled), stalled})
				resp, err := conn.Do(r)
				stalled.Close() // for a client that is still at it
				if err != nil {
					answers <- 0
					return
				}
				resp.Body.Close()
				answers <- resp.StatusCode
			}()
			synctest.Wait()
		}
		counts := map[int]int{}
		for range 40 {
			counts[<-answers]++
		}
		if busy := counts[503] + counts[0]; busy < 20 || counts[408] < 7 || counts[408]+busy != 40 {
			t.Errorf("%v", counts)
		}
		if a := fetch(t, w.Client(t, version), "POST", "/rate", `[{"key":"a"}]`); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// An unread answer has a client that reads nothing until it is told to.
type unread struct {
	kept
	read chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	<-u.read
	return u.kept.Write(p)
}

// Batches hold memory until their clients have read the answers.
func TestBatchesUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := newSite(t, httpapi.Config{MaxBody: 64 << 10}, allKeys(100, time.Hour, ""))
		read := make(chan struct{})
		statuses := make(chan int, 40)
		for range 40 {
			go func() {
				w := &unread{kept{header: http.Header{}}, read}
				site.ServeHTTP(w, newRequest("POST", "/rate", `[{"key":"a"}`+strings.Repeat(`,{"key":"a"}`, 4999)+"]"))
				statuses <- max(w.status, 200)
			}()
			synctest.Wait()
		}
		close(read)
		counts := map[int]int{}
		for range 40 {
			counts[<-statuses]++
		}
		if counts[200] < 5 || counts[503] < 20 || counts[200]+counts[503] != 40 {
			t.Errorf("%v", counts)
		}
		if a := site.ask("POST", "/rate", `[{"key":"b"}]`); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
