package batchjson_test

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/batchjson"
)

var most = batchjson.Limits{Requests: 5, Key: 20}

// FuzzDecoder compares with encoding/json: what it takes for JSON, and what this
// package's rules say of it, one by one.
func FuzzDecoder(f *testing.F) {
	for _, text := range []string{
		`{"requests":[{"key":"a","n":2},{"key":"b"}],"all":true,"ids":false}`, `[{"key":"a"}]`, `[]`, `{"requests":[]}`,
		`[{"key":"\u0061\ud83d\ude00","n":0}]`, `[{"key":"a"},]`, `[{"key":"a",}]`, `[{"key":"a"} {"key":"b"}]`, `[{"key":"a"}]]`,
		`[{"key":"a","n":01}]`, `[{"key":"a","n":1.0}]`, `[{"key":"a","n":1e0}]`, `[{"key":"a","n":-0}]`, `[{"key":"a","n":2147483648}]`,
		`[{"key":"a","key":"b"}]`, `[{"KEY":"a"}]`, `[{"key":null}]`, `[{"n":1}]`, `null`, ``, ` [ ] `, "[{\"key\":\"\xff\"}]", `{"all":1,"requests":[]}`,
		`{"\u0072equests":[{"\u006bey":"x"}]}`, `{"requests":[],"requests":[]}`, "\ufeff[]", `[{"key":"\ud800"}]`, `[{"key":"\\ud800\ufffd"}]`, `[{"key":"\uDBFF\uDFFF"}]`, `[{"key":"\ude00\ud83d"}]`, `[{"key":"\ud83d\ud83d\ude00"}]`, `[{"key":"\ud83d\\ude00"}]`, `[{"key":"a\u0000"}]`, "[{\"key\":\"a\n\"}]",
		`{"all":true}`, `{"all" true}`, `{"all"`, `{}`, `[{}]`, `[[]]`, `[{"key":"\x"}]`, `{"requests":[{"key":"a"}],"all":truefalse}`, `[{"key":"a"`, `[{"key":"a`, `[{"key"`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got batchjson.Batch
		err := got.Read(text, most)
		want, ok := oracle(text)
		if ok != (err == nil) {
			t.Fatalf("%q: %v: want it accepted: %v", text, err, ok)
		}
		if err != nil {
			return
		}
		compare(t, text, got.Requests, want.Requests)
		if got.All != want.All || got.IDs != want.IDs {
			t.Errorf("%q: all %v, ids %v", text, got.All, got.IDs)
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
	f.Fuzz(func(t *testing.T, text string) {
		var got batchjson.Batch
		err := got.ReadLines(text, most)
		var want []decider.Request
		ok := true
		for line := range strings.Lines(text) {
			if strings.Trim(line, " \t\r\n") == "" {
				continue
			}
			one, fine := oracle("[" + strings.TrimSuffix(line, "\n") + "]")
			ok = ok && fine && len(one.Requests) == 1
			want = append(want, one.Requests...)
		}
		ok = ok && len(want) <= 5
		if ok != (err == nil) {
			t.Fatalf("%q: %v: want it accepted: %v", text, err, ok)
		}
		if ok {
			compare(t, text, got.Requests, want)
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
func oracle(text string) (b batchjson.Batch, ok bool) {
	if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
		return b, false
	}
	if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[") {
		b.Requests, ok = oracleRequests(json.RawMessage(text))
		return b, ok
	}
	members, ok := oracleObject(text, "requests", "all", "ids")
	if !ok || members["requests"] == nil {
		return b, false
	}
	for name, to := range map[string]*bool{"all": &b.All, "ids": &b.IDs} {
		switch string(members[name]) {
		case "true":
			*to = true
		case "false", "":
		default:
			return b, false
		}
	}
	b.Requests, ok = oracleRequests(members["requests"])
	return b, ok
}

func oracleRequests(text json.RawMessage) (requests []decider.Request, ok bool) {
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
		if json.Unmarshal(members["key"], &req.Key) != nil || oracleHalf(string(members["key"])) {
			return nil, false
		}
		key, err := decider.ParseKey(req.Key, most.Key)
		if req.Key = key; err != nil {
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

var (
	otherEscapes = regexp.MustCompile(`\\[^u]`)
	pairs        = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..`)
	halves       = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// oracleHalf reports whether a string has an escape that is half of a character.
func oracleHalf(literal string) bool {
	return halves.MatchString(pairs.ReplaceAllString(otherEscapes.ReplaceAllString(literal, "x"), ""))
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
