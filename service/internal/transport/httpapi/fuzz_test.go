package httpapi

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/transport/wirejson/jsontext"
)

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
		if got := string(jsontext.AppendString(nil, text)) + "\n"; got != want.String() {
			t.Errorf("%q: %s: want %s", text, got, &want)
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
