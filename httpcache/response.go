package httpcache

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/problem"
)

// A response is a complete response of the handler. It does not change.
type response struct {
	status int
	header http.Header
	fields []field // of header: a slice is faster to walk than a map
	values int     // in all fields
	body   []byte

	at       time.Time     // when it arrived
	age      time.Duration // at that time, by its Age or its Date
	ttl      time.Duration // fresh for so long after at; not at all if <= 0
	modified time.Time     // its Last-Modified, or zero
	strict   bool          // it must not be sent when it is no longer fresh
	kept     atomic.Bool   // it goes into the cache
}

type field struct {
	name   string
	values []string
	adds   bool // to a value that is already set; otherwise it replaces that
}

func newResponse(status int, h http.Header, body []byte, now time.Time) *response {
	s := &response{status: status, header: h, body: body, at: now}
	for name, values := range h {
		adds := name == "Vary" || name == "Set-Cookie" || name == "Cache-Status"
		s.fields = append(s.fields, field{name, values, adds})
		s.values += len(values)
	}
	age, _, _ := strings.Cut(h.Get("Age"), ",")
	s.age = time.Duration(parseSeconds(textproto.TrimString(age))) * time.Second
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		s.age = max(s.age, min(now.Sub(date).Truncate(time.Second), maxSeconds*time.Second))
	}
	s.modified, _ = http.ParseTime(h.Get("Last-Modified"))
	return s
}

// cost returns the memory of a value in bytes, besides the cache's own entry.
func cost(_ key, v value) int64 {
	if v.resp == nil {
		n := int64(128)
		for _, name := range v.mark.names {
			n += int64(len(name)) + perValue
		}
		return n
	}
	return v.resp.cost()
}

// The approximate memory of a response besides its text: structs, and the map.
const (
	perResponse = 512
	perField    = 120
	perValue    = 16
)

func (s *response) cost() int64 {
	n := int64(perResponse + len(s.body) + perField*len(s.fields) + perValue*s.values)
	for _, f := range s.fields {
		n += int64(len(f.name))
		for _, value := range f.values {
			n += int64(len(value))
		}
	}
	return n
}

// failed reports whether a response is an error of the handler.
func (s *response) failed() bool {
	return s.status >= 500 && s.status != http.StatusNotImplemented || s.status == http.StatusTooManyRequests
}

// limited reports whether a limiter of this module has made a response, in place of the
// handler within it. It says nothing about the responses of that handler.
func (s *response) limited() bool {
	_, ok := s.header[problem.ReasonHeader]
	return ok && s.failed()
}

// blames reports whether a response concerns its request, and not the resource.
func (s *response) blames() bool {
	return s.status >= 400 && s.status < 500 && !s.shareable() && !s.failed()
}

// shareable reports whether the status allows that a response is shared.
func (s *response) shareable() bool {
	switch s.status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// freshness returns how long a response is fresh after its arrival, by its own
// headers or, without them, by default.
func (s *response) freshness(d directives, otherwise time.Duration) time.Duration {
	expires, ok := s.header["Expires"]
	switch {
	case d.sMaxAge >= 0:
		return time.Duration(d.sMaxAge)*time.Second - s.age
	case d.maxAge >= 0:
		return time.Duration(d.maxAge)*time.Second - s.age
	case ok && len(expires) > 0:
		at, err := http.ParseTime(expires[0])
		date, dateErr := http.ParseTime(s.header.Get("Date"))
		if err != nil || dateErr != nil {
			return 0 // invalid, for example 0: expired
		}
		return max(at.Sub(date), 0) - s.age
	}
	return otherwise - s.age
}

// writeKept sends a kept response.
func (s *response) writeKept(w http.ResponseWriter, r *http.Request, isStale bool) {
	here := time.Since(s.at)
	left := s.ttl - here
	ttl := int64(max(left, 0) / time.Second)
	if isStale {
		ttl = min(int64((left-time.Second+1)/time.Second), -1)
	}
	s.write(w, r, strconv.FormatInt(int64((s.age+here)/time.Second), 10), "weir; hit; ttl="+strconv.FormatInt(ttl, 10))
}

// write sends a response, with an Age if it is not "".
func (s *response) write(w http.ResponseWriter, r *http.Request, age, status string) {
	h := w.Header()
	encoder := len(h["Content-Encoding"]) > 0 && len(s.header["Content-Encoding"]) == 0 // an outer middleware encodes our response
	all := make([]string, 0, s.values+2)                                                // a copy: others may change the values in h
	for _, f := range s.fields {
		from := len(all)
		all = append(all, f.values...)
		set(h, f.name, all[from:len(all):len(all)], f.adds)
	}
	all = append(all, status, age)
	set(h, "Cache-Status", all[s.values:s.values+1:s.values+1], true)
	if age != "" {
		h["Age"] = all[s.values+1 : s.values+2 : s.values+2]
	}
	if encoder {
		delete(h, "Content-Length")
	}
	if s.status == http.StatusOK && conditional(r) {
		if encoder || r.Method != http.MethodGet || !strings.HasPrefix(r.Header.Get("Range"), "bytes=") {
			r = r.WithContext(r.Context()) // a copy, without a Range that does not count
			r.Header = maps.Clone(r.Header)
			delete(r.Header, "Range")
		}
		content, sized := s.content(r)
		if !sized {
			w = unsized{w}
		}
		if _, typed := h["Content-Type"]; !typed {
			h["Content-Type"] = nil // otherwise ServeContent guesses
		}
		delete(h, "Content-Length") // ServeContent sets it
		http.ServeContent(w, r, "", s.modified, content)
		return
	}
	w.WriteHeader(s.status)
	if r.Method != http.MethodHead && len(s.body) > 0 {
		_, _ = w.Write(s.body) // an error means that the client has left
	}
}

func set(h http.Header, name string, values []string, adds bool) {
	if adds && len(h[name]) > 0 {
		values = append(h[name], values...)
	}
	h[name] = values
}

// content returns the body for http.ServeContent; for a response to HEAD, nothing
// that has the declared length, if there is one.
func (s *response) content(r *http.Request) (content io.ReadSeeker, sized bool) {
	if r.Method != http.MethodHead {
		return bytes.NewReader(s.body), true
	}
	n, err := strconv.ParseInt(s.header.Get("Content-Length"), 10, 64)
	return io.NewSectionReader(strings.NewReader(""), 0, max(n, 0)), err == nil
}

// unsized is the ResponseWriter for a response to HEAD that declares no length.
type unsized struct{ http.ResponseWriter }

func (u unsized) WriteHeader(status int) {
	u.Header().Del("Content-Length") // that of ServeContent
	u.ResponseWriter.WriteHeader(status)
}

// directives are the directives of a Cache-Control that count (RFC 9111, 5.2).
type directives struct {
	private         bool // or no-cache
	noStore         bool
	authorized      bool  // may be shared, while fresh, although its request had credentials
	maxAge, sMaxAge int64 // in seconds; -1 if there is none

	revalidate bool // must-revalidate or proxy-revalidate
	stale      bool // stale-while-revalidate or stale-if-error (RFC 5861), of more than zero seconds
}

// strict reports whether a response must not be sent when it is no longer fresh (RFC 9111,
// 4.2.4). For a shared cache, s-maxage says so too, unless another directive allows it.
func (d directives) strict() bool { return d.revalidate || d.sMaxAge >= 0 && !d.stale }

// parseDirectives parses the lines of a Cache-Control. What is malformed, as in "private; max-age=9", counts
// as no-store.
func parseDirectives(lines []string) directives {
	d := directives{maxAge: -1, sMaxAge: -1}
	for _, rest := range lines {
		for rest != "" {
			var one string
			one, rest, _ = httpheader.Cut(rest, ',')
			if one = textproto.TrimString(one); one == "" {
				continue
			}
			name, value, valued := strings.Cut(one, "=")
			if !httpheader.ValidName(name) || valued && !httpheader.ValidName(value) && !quoted(value) {
				d.noStore = true
			}
			switch strings.ToLower(name) {
			case "private", "no-cache":
				d.private = true
			case "no-store":
				d.noStore = true
			case "public":
				d.authorized = true
			case "s-maxage":
				d.authorized = true
				d.sMaxAge = least(d.sMaxAge, value)
			case "must-revalidate", "proxy-revalidate":
				d.revalidate = true
			case "stale-while-revalidate", "stale-if-error":
				d.stale = d.stale || seconds(value) > 0
			case "max-age":
				d.maxAge = least(d.maxAge, value)
			}
		}
	}
	return d
}

// quoted reports whether a text is a quoted string (RFC 9110, section 5.6.4).
func quoted(text string) bool {
	for i := 1; i < len(text) && text[0] == '"'; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i == len(text)-1
		}
	}
	return false
}

// least returns the shorter of a time in seconds and the one before.
func least(before int64, value string) int64 {
	n := seconds(value)
	if before >= 0 {
		return min(before, n)
	}
	return n
}

// seconds parses the value of a directive, which may be quoted, as a time in seconds.
func seconds(value string) int64 {
	return parseSeconds(strings.Trim(strings.TrimSpace(value), `"`))
}

// maxSeconds replaces all longer times (RFC 9111, 1.2.2).
const maxSeconds = 1 << 31

// parseSeconds parses a time in seconds. If it is not a number, it is zero.
func parseSeconds(s string) int64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && n == 0 {
		return 0
	}
	return int64(min(n, maxSeconds))
}
