package proxyrule

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/routeset"
)

// ParseRequest reads a request as a person writes it: method, target and headers, as in
//
//	POST /login?next=/ X-Api-Key=abc Authorization="Bearer xyz" address=203.0.113.7
//
// The method may be left out for GET. The name address stands for the client's address. A
// value with spaces has quotes.
func ParseRequest(text string) (*http.Request, error) {
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "/") {
		words = append([]string{http.MethodGet}, words...)
	}
	if len(words) < 2 {
		return nil, errors.New(`want a method and a path, such as "GET /users/7"`)
	}
	if !httpguts.ValidHeaderFieldName(words[0]) {
		return nil, fmt.Errorf("%q is not a method", words[0])
	}
	target, err := url.ParseRequestURI(words[1])
	if err != nil || words[1][0] != '/' {
		return nil, fmt.Errorf("%q is not a path: it begins with a slash, and has %%20 for a space", words[1])
	}
	r := &http.Request{Method: words[0], URL: target, Header: http.Header{}, Host: "localhost", RemoteAddr: "127.0.0.1"}
	for _, word := range words[2:] {
		name, value, found := strings.Cut(word, "=")
		switch {
		case !found:
			return nil, fmt.Errorf("%q: want a header as NAME=value, or address=ADDRESS", word)
		case name == "address":
			if _, ok := caller.ParsePeer(value); !ok {
				return nil, fmt.Errorf("address=%s: must be unix: or an address", value)
			}
			r.RemoteAddr = value
		case !httpguts.ValidHeaderFieldName(name):
			return nil, fmt.Errorf("%q: is not the name of a header", name)
		case strings.EqualFold(name, "Host"):
			r.Host = value
		default:
			r.Header.Add(name, value)
		}
	}
	return r, nil
}

// split splits a text at spaces outside of double quotes, and removes the quotes.
func split(text string) (words []string, err error) {
	var b strings.Builder
	quoted, some := false, false
	for _, c := range text {
		switch {
		case c == '"':
			quoted, some = !quoted, true
		case c == ' ' && !quoted:
			if some {
				words = append(words, b.String())
			}
			b.Reset()
			some = false
		default:
			b.WriteRune(c)
			some = true
		}
	}
	if quoted {
		return nil, errors.New("a quote does not end")
	}
	if some {
		words = append(words, b.String())
	}
	return words, nil
}

// An Explanation says what a file does with a request.
type Explanation struct {
	Request  string            `json:"request"` // method, target and client
	Class    string            `json:"class"`
	Route    string            `json:"route,omitempty"`       // the pattern of the class; none for the class default
	Limit    string            `json:"limit"`                 // of the class, in words
	AllLimit string            `json:"total_limit,omitempty"` // of all classes together, in words
	Priority string            `json:"priority"`
	Tenant   string            `json:"tenant,omitempty"`
	Deadline string            `json:"deadline,omitempty"`
	Mode     Mode              `json:"mode"` // of the class
	Rules    []RuleExplanation `json:"rules"`
}

// A RuleExplanation says what a rule does with a request.
type RuleExplanation struct {
	Name    string `json:"name"`
	Applies bool   `json:"applies"`
	Why     string `json:"why,omitempty"` // it does not apply
	Key     string `json:"key,omitempty"` // the bucket, as in header X-Api-Key "abc"
	Does    string `json:"does,omitempty"`
	Mode    Mode   `json:"mode"`
}

// Explain says what the rules do with a request.
func (r *Rules) Explain(req *http.Request) Explanation {
	x := Explanation{
		Request: fmt.Sprintf("%s %s from %s", req.Method, req.URL.RequestURI(), req.RemoteAddr), Class: DefaultClass, Rules: []RuleExplanation{},
	}
	class := cmp.Or(r.Default, new(Class))
	routes, classOf := r.ClassRoutes()
	if pattern, ok := routes.Match(req); ok {
		class = &r.Classes[classOf[pattern]]
		x.Class, x.Route = class.Name, pattern
	}
	x.Limit, x.Mode = class.describe(x.Class == DefaultClass), r.modeOf(class.Mode)
	if r.Total != nil {
		x.AllLimit = (&Class{Concurrency: *r.Total}).describe(true)
	}
	reader := r.Reader()
	x.Priority = Level(reader.Priority(req, weir.Priority(class.Priority))).String()
	if r.Tenants != nil {
		x.Tenant = r.Tenants.By.describe(req, routes, "are one tenant")
	}
	if d, ok := reader.Deadline(req); ok && (class.Deadline == 0 || d < class.Deadline) {
		x.Deadline = fmt.Sprintf("%v, of the header %s", d, r.Deadline.Header)
	} else if class.Deadline > 0 {
		x.Deadline = fmt.Sprintf("%v, of the class", class.Deadline)
	}
	for i := range r.Rules {
		x.Rules = append(x.Rules, r.Rules[i].explain(req, r.modeOf(r.Rules[i].Mode)))
	}
	return x
}

// modeOf returns the mode of a part, which that of the file overrides.
func (r *Rules) modeOf(m Mode) Mode {
	if r.Mode == Shadow {
		return Shadow
	}
	return cmp.Or(m, Enforce)
}

func (r *Rule) explain(req *http.Request, mode Mode) RuleExplanation {
	x := RuleExplanation{Name: r.Name, Mode: mode}
	m := r.match()
	if _, routed := m.routes.Match(req); !routed && !m.all {
		x.Why = "none of its routes matches"
		return x
	}
	if pattern, excepted := m.except.Match(req); excepted {
		x.Why = fmt.Sprintf("except has %q", pattern)
		return x
	}
	x.Applies = true
	x.Key = "the bucket of all requests"
	if len(r.By) > 0 {
		x.Key = r.By.describe(req, m.routes, "share a bucket")
	}
	if r.Limit > 0 {
		x.Does = fmt.Sprintf("holds 1 of %d requests in flight", r.Limit)
		return x
	}
	quota := r.Quota()
	x.Does = fmt.Sprintf("takes 1 token: %s, %d at once", r.Rate, quota.Burst())
	if r.MaxWait > 0 {
		x.Does += fmt.Sprintf(", a request waits for at most %v", r.MaxWait)
	}
	return x
}

// describe returns the key of a request with its source.
func (ks Keys) describe(req *http.Request, routes *routeset.Set, without string) string {
	for _, k := range ks {
		var all []string
		for _, p := range k.parts {
			text, ok := p.function(routes)(req)
			if !ok {
				break
			}
			if strings.HasPrefix(text, "\x00") {
				text = "(a long text, by its hash)"
			}
			all = append(all, fmt.Sprintf("%s %q", p, text))
		}
		if len(all) == len(k.parts) {
			return strings.Join(all, " + ")
		}
	}
	return "none: requests without " + ks.String() + " " + without
}

// describe returns the limits of a class in words.
func (c *Class) describe(other bool) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch {
	case c.Limit != nil:
		add("limit %v", *c.Limit)
	case other:
		add("limit of the flag --limit")
	default:
		add("shares the limit of the class default")
	}
	if c.SlowStart != nil && *c.SlowStart > 0 {
		add("slow start after %v", *c.SlowStart)
	}
	if c.Queue != nil {
		add("%d may wait", *c.Queue)
	}
	switch {
	case c.MaxWait == nil:
	case c.Queue == nil:
		add("a request waits for at most %v", *c.MaxWait)
	default:
		add("for at most %v", *c.MaxWait)
	}
	if c.Timeout != nil {
		add("time-out %v", *c.Timeout)
	}
	if c.MaxBody != nil {
		add("body of at most %v", *c.MaxBody)
	}
	if k := c.Cache; k != nil {
		add("cache (ttl %v, stale %v)", k.TTL, k.Stale)
	}
	return strings.Join(all, ", ")
}

// Text returns the explanation as lines for a terminal, not escaped.
func (x *Explanation) Text() string {
	var b strings.Builder
	shadow := map[Mode]string{Shadow: "; shadow: changes nothing"}
	fmt.Fprintf(&b, "%s\n  class %s", x.Request, x.Class)
	if x.Route != "" {
		fmt.Fprintf(&b, " (route %q)", x.Route)
	}
	fmt.Fprintf(&b, ": %s%s\n", x.Limit, shadow[x.Mode])
	if x.AllLimit != "" {
		fmt.Fprintf(&b, "  total of all classes: %s\n", x.AllLimit)
	}
	for _, r := range x.Rules {
		if r.Applies {
			fmt.Fprintf(&b, "  rule %s: %s, of %s%s\n", r.Name, r.Does, r.Key, shadow[r.Mode])
		} else {
			fmt.Fprintf(&b, "  rule %s does not apply: %s\n", r.Name, r.Why)
		}
	}
	fmt.Fprintf(&b, "  priority %s", x.Priority)
	if x.Tenant != "" {
		fmt.Fprintf(&b, "; tenant %s", x.Tenant)
	}
	if x.Deadline != "" {
		fmt.Fprintf(&b, "; deadline %s", x.Deadline)
	}
	b.WriteString("\n")
	return b.String()
}
