package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A stream holds the frames that a client sends on one stream of HTTP/2.
type stream struct {
	fields  []string // "name: value"; the pseudo-header fields first
	data    string   // of one DATA frame; "-" for none, with END_STREAM in HEADERS
	trailer []string
}

// streams are the requests of clients over HTTP/2, by name.
var streams = map[string]stream{
	"get":                        {getFields("/"), "-", nil},
	"head":                       {[]string{":method: HEAD", ":scheme: http", ":path: /chunked", ":authority: shop.example"}, "-", nil},
	"post":                       {postFields("content-length: 5"), "hello", nil},
	"post without a length":      {postFields(), "hello", nil},
	"trailer":                    {postFields("trailer: sum"), "hello", []string{"sum: 42"}},
	"trailer, unannounced":       {postFields(), "hello", []string{"sum: 42"}},
	"trailer, forbidden":         {postFields("trailer: content-length"), "hello", []string{"content-length: 42"}},
	"pseudo-header as a trailer": {postFields(), "hello", []string{":path: /smuggled"}},
	"cookies":                    {getFields("/", "cookie: a=1", "cookie: b=2"), "-", nil},
	"expect":                     {postFields("expect: 100-continue", "content-length: 5"), "hello", nil},
	"length too large":           {postFields("content-length: 50"), "hello", nil},
	"length too small":           {postFields("content-length: 2"), "hello", nil},
	"two lengths":                {postFields("content-length: 5", "content-length: 6"), "hello", nil},
	"bad length":                 {postFields("content-length: +5"), "hello", nil},
	"transfer-encoding":          {postFields("transfer-encoding: chunked"), "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", nil},
	"connection":                 {getFields("/", "connection: close"), "-", nil},
	"keep-alive":                 {getFields("/", "keep-alive: 5"), "-", nil},
	"upgrade":                    {getFields("/upgrade", "upgrade: echo"), "-", nil},
	"te":                         {getFields("/", "te: trailers"), "-", nil},
	"te, gzip":                   {getFields("/", "te: gzip"), "-", nil},
	"upper case":                 {getFields("/", "X-Upper: a"), "-", nil},
	"CRLF in a value":            {getFields("/", "x-a: b\r\nX-Smuggled: c"), "-", nil},
	"NUL in a value":             {getFields("/", "x-a: b\x00c"), "-", nil},
	"CRLF in a name":             {getFields("/", "x-a\r\nx-b: c"), "-", nil},
	"colon in a name":            {getFields("/", "x:a: b"), "-", nil},
	"space in a path":            {getFields("/a b"), "-", nil},
	"CRLF in a path":             {getFields("/a\r\nHost:evil.example"), "-", nil},
	"absolute path":              {getFields("http://other.example/x"), "-", nil},
	"empty path":                 {getFields(""), "-", nil},
	"asterisk":                   {getFields("*"), "-", nil},
	"options of all":             {[]string{":method: OPTIONS", ":scheme: http", ":path: *", ":authority: shop.example"}, "-", nil},
	"no path":                    {[]string{":method: GET", ":scheme: http", ":authority: shop.example"}, "-", nil},
	"no method":                  {[]string{":scheme: http", ":path: /", ":authority: shop.example"}, "-", nil},
	"no scheme":                  {[]string{":method: GET", ":path: /", ":authority: shop.example"}, "-", nil},
	"odd scheme":                 {[]string{":method: GET", ":scheme: gopher", ":path: /", ":authority: shop.example"}, "-", nil},
	"two paths":                  {[]string{":method: GET", ":scheme: http", ":path: /", ":path: /smuggled", ":authority: shop.example"}, "-", nil},
	"unknown pseudo-header":      {[]string{":method: GET", ":scheme: http", ":path: /", ":authority: shop.example", ":x: a"}, "-", nil},
	"pseudo-header last":         {[]string{":method: GET", ":scheme: http", ":path: /", "x-a: b", ":authority: shop.example"}, "-", nil},
	"no authority":               {[]string{":method: GET", ":scheme: http", ":path: /", "host: shop.example"}, "-", nil},
	"host of another":            {getFields("/", "host: evil.example"), "-", nil},
	"authority with a user":      {[]string{":method: GET", ":scheme: http", ":path: /", ":authority: user@shop.example"}, "-", nil},
	"authority with a path":      {[]string{":method: GET", ":scheme: http", ":path: /", ":authority: shop.example/evil"}, "-", nil},
	"method with a space":        {[]string{":method: GET /smuggled HTTP/1.1", ":scheme: http", ":path: /", ":authority: shop.example"}, "-", nil},
	"connect":                    {[]string{":method: CONNECT", ":authority: internal.example:443"}, "-", nil},
	"extended connect":           {[]string{":method: CONNECT", ":protocol: websocket", ":scheme: http", ":path: /upgrade", ":authority: shop.example"}, "-", nil},
	"forwarded":                  {getFields("/", "x-forwarded-for: 203.0.113.9", "forwarded: for=203.0.113.9"), "-", nil},
	"large header":               {getFields("/", "x-large: "+strings.Repeat("a", 90_000)), "-", nil},
}

func getFields(path string, more ...string) []string {
	return append([]string{":method: GET", ":scheme: http", ":path: " + path, ":authority: shop.example"}, more...)
}

func postFields(more ...string) []string {
	return append([]string{":method: POST", ":scheme: http", ":path: /", ":authority: shop.example"}, more...)
}

func init() {
	for path := range scripts {
		streams["answer "+path] = stream{getFields(path), "-", nil}
	}
}

// stricterStreams are refused by this proxy, with a status, before they reach the origin.
// net/http's sends them on, at least in part: it has not received a small body before.
var stricterStreams = map[string]string{"connect": "405", "length too large": "400"}

// overrun are streams with more data than their length says, of which net/http makes an answer or
// a reset, by the order of goroutines. None of the data may reach the origin.
var overrun = map[string]bool{"bad length": true}

// Over HTTP/2, too, this proxy makes of any fields what net/http makes of them.
func TestSameVerdictsHTTP2(t *testing.T) {
	for name, s := range streams {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bare, weir := newBare(t, setting{}), newWeir(t, setting{})
				want, got := judgeStream(t, bare, s), judgeStream(t, weir, s)
				bare.stop()
				weir.stop()
				switch status := stricterStreams[name]; {
				case status != "":
					if !strings.Contains(got, ":status: "+status) || !strings.HasSuffix(got, "origin:\n") {
						t.Errorf("this proxy: %s", got)
					}
				case overrun[name]:
					if _, got, _ := strings.Cut(got, "\norigin:\n"); strings.Contains(got, "hello") {
						t.Errorf("the origin gets %s", got)
					}
				case !sameStream(want, got):
					t.Errorf("this proxy: %s\nnet/http: %s", got, want)
				}
			})
		})
	}
}

// sameStream reports whether two verdicts are equal. If the stream broke off, the origin may
// have got more or less of it by then. As over HTTP/1, this proxy answers 400 for 502 if the
// client is to blame.
func sameStream(bare, weir string) bool {
	bare, gotBare, _ := strings.Cut(bare, "\norigin:\n")
	weir, gotWeir, _ := strings.Cut(weir, "\norigin:\n")
	if strings.ReplaceAll(settled(weir), ":status: 400 own", ":status: 502 own") != settled(bare) {
		return false
	}
	if strings.Contains(weir, "reset") || strings.Contains(weir, "400 own") {
		return strings.HasPrefix(gotBare, gotWeir) || strings.HasPrefix(gotWeir, gotBare)
	}
	return gotBare == gotWeir
}

// settled removes from an answer what depends on the order of goroutines in net/http: a reset of
// a stream with a complete answer, and what came before an answer broke off.
func settled(answer string) string {
	if strings.Contains(answer, "reset INTERNAL_ERROR") {
		return "broken off"
	}
	return strings.NewReplacer("\n\treset NO_ERROR", "", "\n\treset STREAM_CLOSED", "").Replace(answer)
}

// judgeStream sends a stream over a new connection, and returns what becomes of it.
func judgeStream(t testing.TB, f *front, s stream) string {
	c := f.dial()
	defer c.Close()
	a := &h2answer{}
	go a.read(c)
	go func() {
		_, _ = io.WriteString(c, http2.ClientPreface)
		fr := http2.NewFramer(c, nil)
		fr.AllowIllegalWrites = true
		_ = fr.WriteSettings()
		writeFields(fr, s.fields, s.data == "-")
		if s.data != "-" {
			_ = fr.WriteData(1, s.trailer == nil, []byte(s.data))
		}
		if s.trailer != nil {
			writeFields(fr, s.trailer, true)
		}
	}()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	return a.String() + "\norigin:\n" + f.origin.got.String()
}

// writeFields writes a header or a trailer of stream 1.
func writeFields(fr *http2.Framer, fields []string, end bool) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		i := strings.Index(f[1:], ": ") + 1
		_ = enc.WriteField(hpack.HeaderField{Name: f[:i], Value: f[i+2:]})
	}
	b := block.Bytes()
	first := min(len(b), 16<<10)
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:first], EndStream: end, EndHeaders: first == len(b)})
	for b = b[first:]; len(b) > 0; {
		n := min(len(b), 16<<10)
		_ = fr.WriteContinuation(1, n == len(b), b[:n])
		b = b[n:]
	}
}

// An h2answer records the frames that a client gets on stream 1.
type h2answer struct {
	own  bool // of the proxy, not of the origin
	mu   sync.Mutex
	text strings.Builder
	data strings.Builder
}

func (a *h2answer) add(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fmt.Fprintf(&a.text, format, args...)
}

func (a *h2answer) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%s\n\tdata %q", a.text.String(), a.data.String())
}

func (a *h2answer) read(c io.Reader) {
	fr := http2.NewFramer(io.Discard, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if fields := fieldsOf(f); strings.HasSuffix(fields, " own") {
				a.own = true
				a.add("\n\t%s", fields)
			} else {
				a.add("\n\t%s, end %v", fields, f.StreamEnded())
			}
		case *http2.DataFrame:
			if !a.own {
				a.mu.Lock()
				a.data.Write(f.Data())
				a.mu.Unlock()
			}
		case *http2.RSTStreamFrame:
			a.add("\n\treset %v", f.ErrCode)
		case *http2.GoAwayFrame:
			a.add("\n\tgoaway %v", f.ErrCode)
		}
	}
}

// fieldsOf returns the fields of an answer. Of a proxy's own answer, only the status counts.
func fieldsOf(f *http2.MetaHeadersFrame) string {
	var all []string
	for _, h := range f.Fields {
		switch {
		case h.Name == "weir-reason", h.Name == ":status" && h.Value == "502":
			return ":status: " + f.PseudoValue("status") + " own"
		case h.Name != "date":
			all = append(all, h.Name+": "+h.Value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
