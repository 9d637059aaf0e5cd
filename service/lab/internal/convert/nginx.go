package convert

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/pathshape"
	"github.com/weir-go/weir/recording"
)

// DefaultNginx is the log_format of nginx that is read unless another is given.
const DefaultNginx = `$msec $request_time "$upstream_response_time" $status "$request"`

// combined is the log_format that nginx has unless it is given another one.
const combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// isCombined reports whether the first of some lines is combined.
func isCombined(lines []byte) bool {
	first, _, _ := bytes.Cut(lines, []byte("\n"))
	l, err := newLayout(combined, nginxVariable)
	return err == nil && l.read(bytes.TrimSpace(first), func(string, string) error { return nil }) == nil
}

var nginxVariable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

type nginx struct{ *layout }

func newNginx(format string) (parser, error) {
	l, err := newLayout(format, nginxVariable)
	if err != nil {
		return nil, err
	}
	for _, names := range [][]string{{"msec", "time_iso8601"}, {"request_time"}, {"status"}} {
		if l.has(names...) == "" {
			return nil, fmt.Errorf("the log format has no $%s", strings.Join(names, " and no $"))
		}
	}
	return nginx{l}, nil
}

func (n nginx) missing() []string {
	all := []string{"wait", "deadline", "tenant", inflight}
	if n.has("request", "request_uri", "uri") == "" {
		all = append(all, "class (no $request)")
	}
	if n.has("upstream_response_time") == "" {
		all = append(all, "time of the work alone (no $upstream_response_time: it has the transfer to the client)")
	}
	if n.has("msec") == "" {
		all = append(all, "instants below a second (no $msec)")
	}
	return all
}

// parse reads a line. nginx writes it when the request has ended.
func (n nginx) parse(line []byte, r *Request) error {
	var end, took time.Duration
	work := time.Duration(-1)
	var method, path string
	status := 0
	err := n.read(line, func(name, value string) (err error) {
		switch name {
		case "msec":
			end, err = seconds(value)
		case "time_iso8601":
			if n.has("msec") == "" {
				end, err = instant(value, time.RFC3339)
			}
		case "request_time":
			took, err = seconds(value)
		case "upstream_response_time":
			work, err = upstreamTime(value)
		case "status":
			status, err = statusOf(value)
		case "request":
			method, path = requestLine(value)
		case "request_method":
			method = value
		case "request_uri", "uri":
			path = value
		}
		return err
	})
	if err != nil {
		return err
	}
	r.Intended, r.Start, r.End = end-took, end-took, end
	switch {
	case status == 429, (status == 503 || status == 444) && work < 0:
		r.Outcome, r.Start = recording.Rejected(0), end
	case status == 499:
		r.Outcome = recording.Ended(outcome.Left)
	case status == 504 || status == 408:
		r.Outcome = recording.Ended(outcome.TimedOut)
	default:
		r.Outcome = answered(status)
	}
	if r.Outcome.Worked() && work >= 0 {
		r.End = r.Start + min(work, took)
	}
	r.Class = class(method, path)
	return nil
}

// answered returns the outcome of a request with an answer.
func answered(status int) recording.Outcome {
	switch {
	case status == 101 || status >= 200 && status < 400:
		return recording.Ended(weir.Success)
	case status >= 500:
		return recording.Ended(weir.Dropped)
	}
	return recording.Ended(weir.Ignored)
}

// class returns the class of a request: its method and its path without what looks like an identifier.
func class(method, path string) string {
	if path == "" || path[0] != '/' {
		return method
	}
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if method == "" {
		method = "GET"
	}
	shape := pathshape.Shape(method, path)
	if strings.HasPrefix(shape, "/") {
		return method + " " + shape
	}
	return shape
}

func requestLine(text string) (method, path string) {
	method, rest, _ := strings.Cut(text, " ")
	path, _, _ = strings.Cut(rest, " ")
	return method, path
}

// upstreamTime returns the time that all servers of an upstream took, which are separated by commas and colons; -1 if none was
// asked.
func upstreamTime(text string) (all time.Duration, err error) {
	asked := false
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
		if part == "-" {
			continue
		}
		d, err := seconds(part)
		if err != nil {
			return 0, err
		}
		all, asked = min(all+d, maxSpan), true
	}
	if !asked {
		return -1, nil
	}
	return all, nil
}

// maxSpan bounds times, so that sums do not overflow; maxInstant is in 2242.
const (
	maxSpan    = 365 * 24 * time.Hour
	maxInstant = 272 * 365 * 24 * time.Hour
)

// seconds reads a number of seconds such as 1700000000.123.
func seconds(text string) (time.Duration, error) {
	v, frac, _ := strings.Cut(text, ".")
	whole, err := strconv.ParseUint(v, 10, 63)
	if err != nil || whole > uint64(maxInstant/time.Second) || len(frac) > 18 {
		return 0, fmt.Errorf("%q is not a number of seconds", text)
	}
	d := time.Duration(whole) * time.Second
	for i, unit := 0, 100*time.Millisecond; i < len(frac); i, unit = i+1, unit/10 {
		if frac[i] < '0' || frac[i] > '9' {
			return 0, fmt.Errorf("%q is not a number of seconds", text)
		}
		d += time.Duration(frac[i]-'0') * unit
	}
	return d, nil
}

func instant(text, form string) (time.Duration, error) {
	t, err := time.Parse(form, text)
	if err != nil || t.Unix() < 0 || t.Unix() > int64(maxInstant/time.Second) {
		return 0, fmt.Errorf("%q is not an instant such as %s", text, form)
	}
	return time.Duration(t.UnixNano()), nil
}

func statusOf(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 999 {
		return 0, fmt.Errorf("%q is not a status", text)
	}
	return n, nil
}
