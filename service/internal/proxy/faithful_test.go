package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// A client gets the status and the reason phrase of the origin, and no header that the origin has not sent, but for those of the
// message, also from a cache.
func TestSaysWhatTheOriginSays(t *testing.T) {
	for _, tt := range []struct{ says, status string }{
		{"200 OK\r\nContent-Length: 20\r\n\r\n<html><script></html>", "200 OK"},
		{"200 OK\r\nX-Content-Type-Options: nosniff\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "200 OK"},
		{"200 Fine by me\r\nContent-Length: 2\r\n\r\nok", "200 Fine by me"},
		{"200 \r\nContent-Length: 2\r\n\r\nok", "200 "},
		{"200\r\nContent-Length: 2\r\n\r\nok", "200 "},
		{"200 a\rb\r\nContent-Length: 2\r\n\r\nok", "200 OK"},
		{"200 sch\xf6n\r\nContent-Length: 2\r\n\r\nok", "200 sch\xf6n"},
		{"299 Odd\r\nContent-Length: 2\r\n\r\nok", "299 Odd"},
		{"299\r\nContent-Length: 2\r\n\r\nok", "299 "},
		{"404 Nothing here\r\nContent-Length: 0\r\n\r\n", "404 Nothing here"},
		{"500 200 OK\r\nContent-Length: 0\r\n\r\n", "500 200 OK"},
		{"103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Late\r\nContent-Length: 2\r\n\r\nok", "200 Late"},
	} {
		for _, version := range []string{"HTTP/1.0", "HTTP/1.1"} {
			for _, rules := range []string{"", "classes: [{name: kept, routes: /, cache: {ttl: 1h}}]"} {
				t.Run(fmt.Sprintf("%s to %s, rules %q", tt.says, version, rules), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newWeir(t, setting{script: "HTTP/1.1 " + tt.says, rules: rules})
						defer f.stop()
						for range 3 {
							got := getOnce(t, f, version)
							final := got[strings.LastIndex(got, version+" "):]
							if version == "HTTP/1.0" && strings.Count(got, version) > 1 {
								t.Errorf("%q: want one answer", got)
							}
							line, rest, _ := strings.Cut(final, "\r\n")
							if line != version+" "+tt.status {
								t.Errorf("%q: want the status %q", line, tt.status)
							}
							header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(rest))).ReadMIMEHeader()
							if err != nil {
								t.Fatal(err)
							}
							for name := range header {
								if !strings.Contains(tt.says, name+": ") && !slices.Contains([]string{"Date", "Connection", "Content-Length", "Age", "Cache-Status"}, name) {
									t.Errorf("the proxy adds %s: %q", name, header[http.CanonicalHeaderKey(name)])
								}
							}
						}
					})
				})
			}
		}
	}
}

// getOnce returns what a client gets until the proxy closes the connection.
func getOnce(t *testing.T, f *front, version string) string {
	c := f.dial()
	defer c.Close()
	fmt.Fprintf(c, "GET / %s\r\n%sConnection: close\r\n\r\n", version, host)
	got, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}
