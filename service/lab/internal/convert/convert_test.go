package convert

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
)

const at = 1_700_000_000 * time.Second

// A line of each source is the request that it tells.
func TestLines(t *testing.T) {
	ok, rejected := recording.Ended(weir.Success), recording.Rejected(0)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		name, layout, line string
		from               Format
		start, end         time.Duration
		outcome            recording.Outcome
		class              string
	}{
		{"nginx", "", `1700000000.500 0.200 "0.150" 200 "GET /orders/1234567?a=b HTTP/1.1"`, Nginx, at + ms(300), at + ms(450), ok, "GET /orders/*"},
		{"nginx, several upstreams", "", `1700000000.500 0.200 "0.050, 0.020 : 0.030" 200 "POST / HTTP/1.1"`, Nginx, at + ms(300), at + ms(400), ok, "POST /"},
		{"nginx, an upstream of which one was not asked", "", `1700000000.500 0.200 "-, 0.020" 502 "GET / HTTP/2.0"`, Nginx, at + ms(300), at + ms(320), recording.Ended(weir.Dropped), "GET /"},
		{"nginx, limit_req", "", `1700000000.500 0.000 "-" 503 "GET /a HTTP/1.1"`, Nginx, at + ms(500), at + ms(500), rejected, "GET /a"},
		{"nginx, 503 of the service", "", `1700000000.500 0.100 "0.100" 503 "GET /a HTTP/1.1"`, Nginx, at + ms(400), at + ms(500), recording.Ended(weir.Dropped), "GET /a"},
		{"nginx, the client left", "", `1700000000.500 0.100 "0.100" 499 "GET /a HTTP/1.1"`, Nginx, at + ms(400), at + ms(500), recording.Ended(outcome.Left), "GET /a"},
		{"nginx, timed out", "", `1700000000.500 0.100 "0.100" 504 "GET /a HTTP/1.1"`, Nginx, at + ms(400), at + ms(500), recording.Ended(outcome.TimedOut), "GET /a"},
		{"nginx, not found", "", `1700000000.500 0.100 "0.100" 404 "GET /a HTTP/1.1"`, Nginx, at + ms(400), at + ms(500), recording.Ended(weir.Ignored), "GET /a"},
		{"nginx, another format", `[$time_iso8601] ${status} $request_method $uri t=$request_time`, `[2023-11-14T22:13:20+00:00] 201 PUT /b t=0.250`, Nginx, at - ms(250), at, ok, "PUT /b"},
		{
			"Envoy", "", `[2023-11-14T22:13:20.100Z] "GET /items/550e8400-e29b-41d4-a716-446655440000 HTTP/1.1" 200 - 0 11 35 30 "-" "curl/8" "id" "host:80" "127.0.0.1:8000"`,
			Envoy, at + ms(100), at + ms(130), ok, "GET /items/*",
		},
		{
			"Envoy, rate limited", "", `[2023-11-14T22:13:20.100Z] "GET / HTTP/1.1" 429 RL 0 11 5 - "-" "curl/8" "id" "host:80" "-"`,
			Envoy, at + ms(100), at + ms(105), rejected, "GET /",
		},
		{"Envoy, overflow", `%START_TIME(%s.%6f)% %DURATION% %RESPONSE_CODE% %RESPONSE_FLAGS% %ROUTE_NAME%`, `1700000000.100250 3 503 UO,X orders`, Envoy, at + ms(100) + 250*time.Microsecond, at + ms(103) + 250*time.Microsecond, rejected, "orders"},
		{"Envoy, timed out", `%START_TIME% %DURATION% %RESPONSE_CODE% %RESPONSE_FLAGS:10%`, `2023-11-14T22:13:20.000Z 15000 504 UT`, Envoy, at, at + 15*time.Second, recording.Ended(outcome.TimedOut), ""},
		{
			"k6", "", `{"metric":"http_req_duration","type":"Point","data":{"time":"2023-11-14T22:13:20.5Z","value":200.5,"tags":{"method":"GET","name":"http://host/a/12345678","status":"200"}}}`,
			K6, at + ms(300) - 500*time.Microsecond, at + ms(500), ok, "GET /a/*",
		},
		{
			"k6, a name", "", `{"type":"Point","metric":"http_req_duration","data":{"time":"2023-11-14T22:13:20.5Z","value":100,"tags":{"method":"GET","name":"orders","status":"0","error_code":"1050"}}}`,
			K6, at + ms(400), at + ms(500), recording.Ended(outcome.TimedOut), "GET orders",
		},
		{"CSV", "", "intended,end,outcome,class\n1700000000,1700000000.25,success,\"GET /a,b\"", CSV, at, at + ms(250), ok, "GET /a,b"},
		{"CSV of a trace", "", "intended_s,start_s,end_s,status,reason\n1.5,1.500000001,2,503,queue_full", CSV, 2 * time.Second, 2 * time.Second, recording.Rejected(weir.QueueFull), ""},
	} {
		log, err := Read(strings.NewReader(tt.line+"\n"), Source{tt.from, tt.layout})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		r := log.Requests[0]
		rejected := !r.Outcome.Worked()
		if rejected && r.Start != r.End {
			t.Errorf("%s: a rejected request worked", tt.name)
		}
		if !rejected && r.Start != tt.start || r.End != tt.end || r.Outcome != tt.outcome || r.Class != tt.class {
			t.Errorf("%s: %v to %v, %v, %q: want %v to %v, %v, %q", tt.name, r.Start, r.End, r.Outcome, r.Class, tt.start, tt.end, tt.outcome, tt.class)
		}
		if !rejected && r.Inflight != 1 {
			t.Errorf("%s: %d in flight", tt.name, r.Inflight)
		}
		if tt.layout == "" {
			if got := Detect([]byte(tt.line)); got != tt.from {
				t.Errorf("%s: is taken for %q", tt.name, got)
			}
		}
	}
}

// Lines that are no requests are counted, and the first one is told.
func TestBadLines(t *testing.T) {
	log, err := Read(strings.NewReader("nonsense\n1700000000.500 0.200 \"-\" 200 \"GET / HTTP/1.1\"\n1700000000.500 x \"-\" 200 \"GET / HTTP/1.1\"\n"), Source{Format: Nginx})
	if err != nil || len(log.Requests) != 1 || log.Skipped != 2 || log.FirstBad != "line 1: the line does not have the log format" {
		t.Errorf("%+v, %v", log, err)
	}
	for name, tt := range map[string]struct {
		text string
		from Source
		want string
	}{
		"nothing known":        {"hello\n", Source{}, "--from"},
		"nothing":              {"", Source{}, "the file is empty"},
		"nothing of nginx":     {"", Source{Format: Nginx}, "the file is empty"},
		"combined":             {"::1 - - [29/Nov/2026:11:55:04 +0000] \"GET / HTTP/1.1\" 200 3 \"-\" \"curl/8\"\n", Source{}, "the format is combined, which has no durations"},
		"no requests":          {"hello\n", Source{Format: Nginx}, "line 1: the line does not have the log format"},
		"nginx's own format":   {"a\n", Source{Nginx, `$remote_addr - $remote_user [$time_local] "$request" $status`}, "has no $msec and no $time_iso8601"},
		"no duration":          {"a\n", Source{Nginx, `$msec $status`}, "has no $request_time"},
		"Envoy without a time": {"a\n", Source{Envoy, `%DURATION% %RESPONSE_CODE%`}, "has no %START_TIME%"},
		"side by side":         {"a\n", Source{Nginx, `$msec$request_time $status`}, "side by side"},
		"an unknown column":    {"intended,end,nonsense\n1,2,3\n", Source{Format: CSV}, `unknown column "nonsense"`},
		"an end before":        {"intended,end\n2,1\n", Source{Format: CSV}, "want intended <= start <= end"},
	} {
		if _, err := Read(strings.NewReader(tt.text), tt.from); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v: want %s", name, err, tt.want)
		}
	}
}

// What a source lacks is told, and requests in flight are counted.
func TestMissing(t *testing.T) {
	log, err := Read(strings.NewReader("intended,end,outcome\n1,5,success\n2,3,success\n3,4,success\n3.5,3.6,queue_full\n"), Source{})
	if err != nil || !slices.Equal(log.Missing, []string{"wait", "start", "deadline", inflight, "class", "tenant", "origin"}) {
		t.Fatalf("%+v, %v", log, err)
	}
	var got []int
	for _, r := range log.Requests {
		got = append(got, r.Inflight)
	}
	if !slices.Equal(got, []int{1, 2, 2, 0}) {
		t.Errorf("%v in flight", got)
	}
}

// Spreadsheets begin CSV with a mark of UTF-8, and R puts names of columns into quotes.
func TestForeignCSV(t *testing.T) {
	for _, text := range []string{"\ufeffintended,end\r\n1,2\r\n", "\"intended\",\"end\"\n1,2\n"} {
		for _, format := range []Format{"", CSV} {
			log, err := Read(strings.NewReader(text), Source{Format: format})
			if err != nil || log.Format != CSV || len(log.Requests) != 1 || log.Requests[0].End != 2*time.Second {
				t.Errorf("%q: %+v, %v", text, log, err)
			}
		}
	}
}

// A recording is the same after CSV, and the names of its classes are, too.
func TestRoundTrip(t *testing.T) {
	var file bytes.Buffer
	w := recording.NewWriter(&file, time.Unix(1_700_000_000, 0))
	_ = w.Name(3, "GET /a,\"b\"")
	var want []recording.Record
	for i := range 3000 {
		d := time.Duration(i) * 128 * time.Microsecond
		r := recording.Record{Intended: d, Wait: 128, Start: d + 128, End: d + 12800, Inflight: i % 100, Class: 3 * uint16(i%2), Tenant: uint16(i), Outcome: recording.Outcome(i % 7), Origin: uint8(i)}
		if i%3 == 0 {
			r.Deadline = r.End + 128
		}
		if i%5 == 0 {
			r.Outcome, r.Start = recording.Rejected(weir.Reason(i%4)), r.End
		}
		want = append(want, r)
		_ = w.Write(r)
	}
	_ = w.Flush()
	log, err := Read(&file, Source{})
	if err != nil || log.Format != Recording {
		t.Fatal(err)
	}
	var text, back bytes.Buffer
	if err := log.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&text, Source{})
	if err != nil || len(again.Missing) > 0 || again.Format != CSV {
		t.Fatal(err, again)
	}
	if err := again.WriteRecording(&back); err != nil {
		t.Fatal(err)
	}
	r, err := recording.NewReader(&back)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range want {
		got, err := r.Read()
		if want.Class > 0 {
			want.Class = 1
		}
		if err != nil || got != want {
			t.Fatalf("%d: %+v, %v: want %+v", i, got, err, want)
		}
	}
	if _, err := r.Read(); err != io.EOF || r.Names()[1] != "GET /a,\"b\"" {
		t.Errorf("%v, %v", err, r.Names())
	}
}

// A cell may have several lines. A line with half of a cell is skipped alone.
func TestLinesInCells(t *testing.T) {
	log := Log{Requests: []Request{{Class: "GET /a\nb, \"c\"\n\nd"}, {Class: "GET /b"}, {Class: "\n"}}}
	var text bytes.Buffer
	if err := log.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	again, err := Read(bytes.NewReader(text.Bytes()), Source{})
	if err != nil || len(again.Requests) != 3 || again.Skipped > 0 {
		t.Fatalf("%+v, %v", again, err)
	}
	for i, want := range log.Requests {
		if got := again.Requests[i].Class; got != want.Class {
			t.Errorf("%q: want %q", got, want.Class)
		}
	}
	many := "intended,end,class\n" + strings.Repeat("1,2,\"a\nb\"\n", 20_000) // wherever a read ends
	again, err = Read(strings.NewReader(many), Source{})
	if err != nil || len(again.Requests) != 20_000 || again.Skipped > 0 {
		t.Errorf("%d requests, %d skipped, %v, %v", len(again.Requests), again.Skipped, again.FirstBad, err)
	}
	again, err = Read(strings.NewReader("intended,end,class\n1,2,\"a\nb\""), Source{})
	if err != nil || len(again.Requests) != 1 || again.Requests[0].Class != "a\nb" {
		t.Errorf("%+v, %v", again, err)
	}
	again, err = Read(strings.NewReader("intended,end,class\n1,2,\"a\nb\"\n1,2,\"a\n"+strings.Repeat("1,2,\"c\"\n", 20_000)), Source{})
	if err != nil || len(again.Requests) != 20_001 || again.Skipped != 1 || !strings.HasPrefix(again.FirstBad, "line 4: ") {
		t.Errorf("%d requests, %d skipped, %v, %v", len(again.Requests), again.Skipped, again.FirstBad, err)
	}
}

// A recording that is cut off is read up to the cut.
func TestCut(t *testing.T) {
	var file bytes.Buffer
	w := recording.NewWriter(&file, time.Unix(1, 0))
	for i := range 1000 {
		_ = w.Write(recording.Record{Intended: time.Duration(i)})
	}
	_ = w.Flush()
	log, err := Read(bytes.NewReader(file.Bytes()[:file.Len()-5]), Source{})
	if err != nil || log.Cut != recording.ErrCut || len(log.Requests) != 512 {
		t.Errorf("%v, %v", log, err)
	}
}

// More classes than a recording has names for share a number, which is their name.
func TestManyClasses(t *testing.T) {
	var log Log
	for i := range recording.MaxClasses + 10 {
		log.Requests = append(log.Requests, Request{Class: fmt.Sprint(i)})
	}
	var file bytes.Buffer
	if err := log.WriteRecording(&file); err != nil {
		t.Fatal(err)
	}
	again, err := Read(&file, Source{})
	if err != nil || again.Requests[recording.MaxClasses-1].Class == "" || again.Requests[recording.MaxClasses].Record.Class != recording.Others || again.Requests[recording.MaxClasses].Class != "65535" {
		t.Errorf("%+v, %v", again.Requests[recording.MaxClasses], err)
	}
}

// Whatever a file has, it is read to its end, and what was read can be written and read again.
func FuzzRead(f *testing.F) {
	for i, text := range []string{
		`1700000000.500 0.200 "0.150" 200 "GET /orders/1 HTTP/1.1"`,
		`[2023-11-14T22:13:20.100Z] "GET / HTTP/1.1" 200 - 0 11 35 30 "-" "curl/8" "id" "host:80" "127.0.0.1:8000"`,
		`{"metric":"http_req_duration","type":"Point","data":{"time":"2023-11-14T22:13:20.5Z","value":200.5,"tags":{"method":"GET","name":"http://h/a","status":"200"}}}`,
		"intended,wait,start,end,deadline,inflight,class,tenant,outcome,origin\n1,0.1,1.1,2,3,4,a,5,success,6",
		"intended_s,start_s,end_s,status,reason\n1.5,1.6,2,503,queue_full",
	} {
		f.Add(text, uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		log, err := Read(strings.NewReader(text), Source{Format: []Format{Nginx, Envoy, K6, CSV, ""}[kind%5]})
		if err != nil {
			return
		}
		for _, r := range log.Requests {
			if r.End < r.Start || r.Start < 0 && log.Format != Nginx && log.Format != Recording {
				t.Fatalf("%+v", r)
			}
		}
		var file bytes.Buffer
		if err := log.WriteRecording(&file); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&file, Source{})
		if err != nil || len(again.Requests) != len(log.Requests) {
			t.Fatalf("%d requests are %d: %v", len(log.Requests), len(again.Requests), err)
		}
		if err := again.WriteCSV(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever a log format is, it is compiled or refused.
func FuzzLayout(f *testing.F) {
	f.Add(DefaultNginx, "a b", false)
	f.Add(DefaultEnvoy, "[", true)
	f.Fuzz(func(t *testing.T, layout, line string, isEnvoy bool) {
		compile := newNginx
		if isEnvoy {
			compile = newEnvoy
		}
		if p, err := compile(layout); err == nil {
			_ = p.parse([]byte(line), new(Request))
			p.missing()
		}
	})
}
