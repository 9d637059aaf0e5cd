package leafjson_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/wirejson/leafjson"
)

var most = leafjson.Limits{Reports: 3, Key: 20, Leaf: 10}

// FuzzRead compares with encoding/json: what it takes for JSON, and what this package's rules say
// of it.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		`{"leaf":"a","held":3,"share":true,"leave":true,"reports":[{"key":"k","used":1,"wants":2.5,"has":1e3,"done":true},{"key":"j"}]}`,
		`{"leaf":"a"}`, `{"leaf":"","held":1}`, `{"held":1}`, `{"leaf":"a","held":-1}`, `{"leaf":"a","held":1.0}`, `{"leaf":"a","held":2147483648}`,
		`{"leaf":"a","reports":[{"key":"k","wants":-1}]}`, `{"leaf":"a","reports":[{"key":"k","wants":0.5,"has":00.5}]}`, `{"leaf":"a","reports":[{"key":"k","has":.5}]}`,
		`{"leaf":"a","reports":[{"key":"k","has":5.}]}`, `{"leaf":"a","reports":[{"key":"k","has":1e999}]}`, `{"leaf":"a","reports":[{"key":"k","has":1.2.3}]}`,
		`{"leaf":"a","reports":[{"key":"k","has":1234567890123456789012345}]}`, `{"leaf":"a","reports":[{"key":"k","has":0.000000000000000000001}]}`,
		`{"leaf":"a","reports":[{"key":"k","has":-0}]}`, `{"leaf":"a","reports":[{"key":"k","has":-0.0}]}`, `{"leaf":"a","reports":[{"key":"k","has":+1}]}`, `{"leaf":"a","reports":[{"key":"k","has":"1"}]}`, `{"leaf":"a","reports":[{"key":"k","has":01}]}`,
		`{"leaf":"a","reports":[{"key":"k","has":1E+2}]}`, `{"leaf":"a","reports":[{"key":"k","has":0}]}`, `{"leaf":"a","reports":[{"key":"k","has":0.1234567890123456}]}`,
		`{"leaf":"a","reports":[{"key":"k"},{"key":"k"},{"key":"k"},{"key":"k"}]}`, `{"leaf":"a","reports":[{}]}`, `{"leaf":"a","reports":{}}`, `{"leaf":"a","reports":[{"key":"k","key":"k"}]}`,
		`{"leaf":"a","leaf":"b"}`, `{"leaf":"a","more":1}`, `{"Leaf":"a"}`, `[]`, `null`, ``, `{"leaf":"a"} x`, `{"leaf":"a","leave":1}`, `{"leaf":"a","reports":null}`, `{"leaf":"\u0061","reports":[{"key":"\ud800"}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got leaf.Exchange
		err := leafjson.Read(text, &got, most)
		want, ok := oracle(text)
		if strings.Contains(text, `\u`) && strings.ContainsRune(text, 'd') || strings.Contains(text, `\uD`) {
			ok = ok && err == nil // halves of surrogate pairs: package jsonscan's tests
		}
		if ok != (err == nil) {
			t.Fatalf("%q: %v: want it accepted: %v", text, err, ok)
		}
		if err == nil && !reflect.DeepEqual(got, want) && !(len(got.Reports) == 0 && len(want.Reports) == 0) {
			t.Errorf("%q: %+v: want %+v", text, got, want)
		}
	})
}

// oracle reads an exchange with encoding/json, and applies the rules of this package.
func oracle(text string) (x leaf.Exchange, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if !json.Valid([]byte(text)) || !utf8.ValidString(text) || d.Decode(&x) != nil || !strict(text, reflect.TypeFor[leaf.Exchange]()) {
		return x, false
	}
	var err error
	if x.Leaf, err = decider.ParseKey(x.Leaf, most.Leaf); err != nil || x.Held < 0 || x.Held > math.MaxInt32 || len(x.Reports) > most.Reports {
		return x, false
	}
	for i := range x.Reports {
		r := &x.Reports[i]
		if r.Key, err = decider.ParseKey(r.Key, most.Key); err != nil || r.Used < 0 || r.Used > math.MaxInt32 || r.Wants < 0 || r.Has < 0 {
			return x, false
		}
	}
	return x, true
}

// strict reports whether an object has each member at most once, in the right case, without
// null, and numbers without a sign.
func strict(text string, of reflect.Type) bool {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil || seen[name.(string)] {
			return false
		}
		seen[name.(string)] = true
		var value json.RawMessage
		if d.Decode(&value) != nil || bytes.Equal(value, []byte("null")) || name != "has" && name != "wants" && bytes.HasPrefix(value, []byte("-")) {
			return false
		}
		known := false
		for i := range of.NumField() {
			tag, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			known = known || tag == name
		}
		if !known {
			return false
		}
		if name == "reports" {
			var list []json.RawMessage
			if json.Unmarshal(value, &list) != nil {
				return false
			}
			for _, r := range list {
				if !strict(string(r), reflect.TypeFor[leaf.Report]()) {
					return false
				}
			}
		}
	}
	return true
}

// An answer that is written and read by encoding/json is the same.
func TestAppend(t *testing.T) {
	a := leaf.Answer{TTLMS: 30_000, NextMS: 1000, Resync: true, Watch: []string{"a", `b"\` + "\n<é"}, Assignments: []leaf.Assignment{
		{Key: "a", Rate: 12.5, Burst: 1e12, Contended: true, LimitRate: 0.0001, LimitBurst: 3, Leaves: 7},
		{Key: "<b>", Unlimited: true}, {Key: "c", Learning: true}, {Key: "d", Error: "\x7f no"}, {Key: "e", Rate: 1000.000001, Burst: 0.25},
	}}
	b := leafjson.AppendStart(nil, &a)
	for i := range a.Assignments {
		if i > 0 {
			b = append(b, ',')
		}
		b = leafjson.AppendAssignment(b, &a.Assignments[i])
	}
	b = append(b, leafjson.End...)
	var got leaf.Answer
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%s: %v\n%+v: want\n%+v", b, err, got, a)
	}
}

// Numbers are rounded down, by at most a millionth.
func TestNumbersAreRoundedDown(t *testing.T) {
	for _, x := range []float64{0, 1, 1.0000009, 33.333333333333336, 999_999_999.9999999, 5e-324, 0.1, 1e9, 123456.0000001, math.MaxFloat64, 7.1} {
		b := leafjson.AppendAssignment(nil, &leaf.Assignment{Rate: x})
		var got leaf.Assignment
		if err := json.Unmarshal(b, &got); err != nil || got.Rate > x || got.Rate < x-1.1e-6 {
			t.Errorf("%v: %s: %v", x, b, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	text := `{"leaf":"pod-7","held":1000,"reports":[` + strings.TrimSuffix(strings.Repeat(`{"key":"tenant:12345","used":12,"wants":11.25,"has":12.345678},`, 1000), ",") + `]}`
	var x leaf.Exchange
	b.ReportAllocs()
	for b.Loop() {
		if err := leafjson.Read(text, &x, leafjson.Limits{Reports: 1000, Key: 100, Leaf: 100}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/report")
}

func BenchmarkAppend(b *testing.B) {
	a := leaf.Assignment{Key: "tenant:12345", Rate: 33.333333333333336, Burst: 3.3333333, LimitRate: 1000, LimitBurst: 100, Leaves: 20, Contended: true}
	var text []byte
	for b.Loop() {
		text = leafjson.AppendAssignment(text[:0], &a)
	}
}
