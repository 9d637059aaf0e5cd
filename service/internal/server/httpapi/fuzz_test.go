package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// FuzzDecoder compares with encoding/json: what it takes for JSON, and what this
// package's rules say of it, one by one.
func FuzzDecoder(f *testing.F) {
	for _, text := range []string{
		`{"requests":[{"key":"a","n":2},{"key":"b"}],"all":true,"ids":false}`, `[{"key":"a"}]`, `[]`, `{"requests":[]}`,
		`[{"key":"\u0061\ud83d\ude00","n":0}]`, `[{"key":"a"},]`, `[{"key":"a",}]`, `[{"key":"a"} {"key":"b"}]`, `[{"key":"a"}]]`,
		`[{"key":"a","n":01}]`, `[{"key":"a","n":1.0}]`, `[{"key":"a","n":1e0}]`, `[{"key":"a","n":-0}]`, `[{"key":"a","n":2147483648}]`,
		`[{"key":"a","key":"b"}]`, `[{"KEY":"a"}]`, `[{"key":null}]`, `[{"n":1}]`, `null`, ``, ` [ ] `, "[{\"key\":\"\xff\"}]", `{"all":1,"requests":[]}`,
		`{"\u0072equests":[{"\u006bey":"x"}]}`, `{"requests":[],"requests":[]}`, "\ufeff[]", `[{"key":"\ud800"}]`, `[{"key":"a\u0000"}]`, "[{\"key\":\"a\n\"}]",
		`{"all":true}`, `{}`, `[{}]`, `[[]]`, `[{"key":"\x"}]`, `{"requests":[{"key":"a"}],"all":truefalse}`, `[{"key":"a"`, `[{"key":"a`, `[{"key"`,
	} {
		f.Add(text)
	}
	a := &API{cfg: Config{MaxKey: 20}}
	f.Fuzz(func(t *testing.T, text string) {
		var got batch
		f := got.read(text, false, 5, a.cleanKey)
		want, ok := oracle(a, text)
		if ok != (f == nil) {
			t.Fatalf("%q: %v: want it accepted: %v", text, f, ok)
		}
		if f != nil {
			return
		}
		compare(t, text, got.requests, want.requests)
		if got.all != want.all || got.ids != want.ids {
			t.Errorf("%q: all %v, ids %v", text, got.all, got.ids)
		}
	})
}

// FuzzLines compares each line with a batch of it alone.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"{\"key\":\"a\"}\n{\"key\":\"b\",\"n\":2}\r\n", "", "\n\n", "{\"key\":\"a\"} {\"key\":\"b\"}", "{\"key\":\n\"a\"}", "[]", "{\"key\":\"a\"},", "{\"key\":\"a\"", "{\"key\":\"a\n\"}", "\x00",
	} {
		f.Add(text)
	}
	a := &API{cfg: Config{MaxKey: 20}}
	f.Fuzz(func(t *testing.T, text string) {
		var got batch
		f := got.read(text, true, 5, a.cleanKey)
		var want []decider.Request
		ok := true
		for line := range strings.Lines(text) {
			if strings.Trim(line, " \t\r\n") == "" {
				continue
			}
			one, fine := oracle(a, "["+strings.TrimSuffix(line, "\n")+"]")
			ok = ok && fine && len(one.requests) == 1
			want = append(want, one.requests...)
		}
		ok = ok && len(want) <= 5
		if ok != (f == nil) {
			t.Fatalf("%q: %v: want it accepted: %v", text, f, ok)
		}
		if ok {
			compare(t, text, got.requests, want)
		}
	})
}

func compare(t *testing.T, text string, got, want []decider.Request) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%q: %d requests: want %d", text, len(got), len(want))
	}
	for i := range got {
		if got[i].Key != want[i].Key || got[i].N != want[i].N {
			t.Errorf("%q: %+v: want %+v", text, got[i], want[i])
		}
	}
}

// oracle reads a batch with encoding/json, and applies the rules of this package
// to what it says.
func oracle(a *API, text string) (b batch, ok bool) {
	if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
		return b, false
	}
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[") {
		b.requests, ok = oracleRequests(a, json.RawMessage(text))
		return b, ok
	}
	members, ok := oracleObject(text, "requests", "all", "ids")
	if !ok || members["requests"] == nil {
		return b, false
	}
	for name, to := range map[string]*bool{"all": &b.all, "ids": &b.ids} {
		switch string(members[name]) {
		case "true":
			*to = true
		case "false", "":
		default:
			return b, false
		}
	}
	b.requests, ok = oracleRequests(a, members["requests"])
	return b, ok
}

func oracleRequests(a *API, text json.RawMessage) (requests []decider.Request, ok bool) {
	var list []json.RawMessage
	if text[0] == 'n' || json.Unmarshal(text, &list) != nil || len(list) > 5 {
		return nil, false
	}
	for _, item := range list {
		members, ok := oracleObject(string(item), "key", "n")
		if !ok || len(members["key"]) == 0 || members["key"][0] != '"' {
			return nil, false
		}
		req := decider.Request{N: 1}
		if json.Unmarshal(members["key"], &req.Key) != nil {
			return nil, false
		}
		key, f := a.cleanKey(req.Key)
		if req.Key = key; f != nil {
			return nil, false
		}
		if n := members["n"]; n != nil {
			if n[0] == 'n' || n[0] == '-' || json.Unmarshal(n, &req.N) != nil || req.N > math.MaxInt32 {
				return nil, false
			}
		}
		requests = append(requests, req)
	}
	return requests, true
}

// oracleObject returns the members of an object, if these are all that it has,
// and each comes once.
func oracleObject(text string, names ...string) (map[string]json.RawMessage, bool) {
	dec := json.NewDecoder(strings.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, false
		}
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if _, twice := members[name.(string)]; twice || !known {
			return nil, false
		}
		members[name.(string)] = value
	}
	return members, true
}

// FuzzString compares what is written with encoding/json.
func FuzzString(f *testing.F) {
	for _, text := range []string{"", "a", `"\`, "\x00\x1f\x7f\b\f\n\r\t", "ä😀\u2028\u2029\ufffd", "\xff\xc3\x28\xed\xa0\x80", "</script>&"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := string(appendString(nil, text)) + "\n"; got != want.String() {
			t.Errorf("%q: %s: want %s", text, got, &want)
		}
	})
}

// FuzzQuery compares with net/url, where that finds nothing wrong.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{"", "n=1", "n=%31&canWait=true", "canWait=+1+&x=%zz", "n=1&n=2", "%6e=3", "timeout=1.5&ttl=2m", "=&=&&", "n", "n=1;canWait=1", "n=%", "outcome=late&all=T&ids=f", strings.Repeat("&", 31)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, query string) {
		var p params
		fault := p.parse(query, 0x1ff)
		values, err := url.ParseQuery(query)
		if err != nil || fault != nil {
			return
		}
		for name, all := range values {
			if named(name) != 0 && len(all) > 1 {
				t.Errorf("%q: %s came %d times", query, name, len(all))
			}
		}
		for _, name := range []string{"canWait", "n", "timeout", "maxRequests", "maxRequestsInQueue", "ttl", "outcome", "all", "ids"} {
			if (p.given&named(name) != 0) != values.Has(name) || (p.valued&named(name) != 0) != (strings.TrimSpace(values.Get(name)) != "") {
				t.Errorf("%q: %s: given %b, valued %b", query, name, p.given, p.valued)
			}
		}
		if want, ok := whole(strings.TrimSpace(values.Get("n"))); ok && p.n != want {
			t.Errorf("%q: n is %d: want %d", query, p.n, want)
		}
		if p.n < 0 || p.n > maxN || p.timeout < 0 || p.ttl < 0 || p.valued&paramTTL != 0 && p.ttl == 0 {
			t.Errorf("%q: %+v", query, p)
		}
	})
}

// FuzzPath compares with what is between the slashes, unescaped.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"/rate/a", "/rate/a%2Fb/c", "/", "//", "/rate//", "/rate/%20/%", "/debug/", "/rate/../x", "/a/b/c/d", "", "*", "/rate/a%252Fb", "/%72ate/x"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" {
			return
		}
		got := locate(u)
		parts := strings.Split(u.EscapedPath(), "/")[1:]
		want := target{parts: len(parts)}
		for i, into := range []*string{&want.root, &want.key, &want.id} {
			if i < len(parts) {
				if *into, err = url.PathUnescape(parts[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch {
		case len(parts) > 3:
			want = target{}
		case want.root == "debug" && len(parts) == 2 && want.key == "":
			want.parts = 1
		}
		if got != want {
			t.Errorf("%q: %+v: want %+v", path, got, want)
		}
	})
}
