package proxyheader

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/testrig"
)

// A network returns an error from Accept if its connection is nil.
type network struct{ *testrig.Network }

func (n network) Accept() (net.Conn, error) {
	c, err := n.Network.Accept()
	if c == nil && err == nil {
		return nil, errors.New("too many open files")
	}
	return c, err
}

// A door is a Listener that trusts 10.0.0.0/8, with what it has accepted and refused.
type door struct {
	t        *testing.T
	in       network
	accepted chan net.Conn
	failures chan error
}

func open(t *testing.T, test func(door)) {
	synctest.Test(t, func(t *testing.T) {
		d := door{t, network{testrig.Listen()}, make(chan net.Conn, 2000), make(chan error, 2000)}
		trusted := caller.Trust([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, false)
		l := New(d.in, Config{Trusted: trusted.Contains, Timeout: 10 * time.Second, Failed: func(_ net.Addr, err error) { d.failures <- err }})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				c, err := l.Accept()
				switch {
				case errors.Is(err, net.ErrClosed):
					return
				case err == nil:
					d.accepted <- c
				}
			}
		}()
		test(d)
		l.Close()
		<-ended
	})
}

// come opens a connection and sends bytes.
func (d door) come(from, sends string) net.Conn {
	client := d.in.DialFrom(d.t, from)
	go func() { _, _ = io.WriteString(client, sends) }()
	synctest.Wait()
	return client
}

// gets expects a connection from an address, over which rest comes.
func (d door) gets(from, rest string) {
	d.t.Helper()
	select {
	case c := <-d.accepted:
		b := make([]byte, len(rest))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != rest {
			d.t.Errorf("it reads %q, %v: want %q", b, err, rest)
		}
		if got := c.RemoteAddr().String(); got != from {
			d.t.Errorf("its address is %s: want %s", got, from)
		}
		c.Close()
	default:
		d.t.Error("no connection is accepted")
	}
}

// fails expects no connection, and an error.
func (d door) fails() {
	d.t.Helper()
	select {
	case c := <-d.accepted:
		d.t.Errorf("a connection from %v is accepted", c.RemoteAddr())
	case <-d.failures:
	default:
		d.t.Error("no error")
	}
}

// v2 returns a header of version 2.
func v2(t testing.TB, from string, more ...proxyproto.TLV) string {
	h := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.9.9.9:443")))
	if from[0] == '[' {
		h = proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::9]:443")))
	}
	if err := h.SetTLVs(more); err != nil {
		t.Fatal(err)
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const get = "GET / HTTP/1.1\r\n\r\n"

func TestHeaders(t *testing.T) {
	large := proxyproto.TLV{Type: 0xe0, Value: make([]byte, 1500)}
	for name, tt := range map[string]struct{ from, sends, want string }{
		"version 1":                       {"10.0.0.1:5", "PROXY TCP4 192.0.2.7 10.9.9.9 4711 443\r\n" + get, "192.0.2.7:4711"},
		"version 1, IPv6":                 {"10.0.0.1:5", "PROXY TCP6 2001:db8::7 2001:db8::9 4711 443\r\n" + get, "[2001:db8::7]:4711"},
		"version 1, a health check":       {"10.0.0.1:5", "PROXY UNKNOWN\r\n" + get, "10.0.0.1:5"},
		"version 2":                       {"10.0.0.1:5", v2(t, "192.0.2.7:4711") + get, "192.0.2.7:4711"},
		"version 2, IPv6":                 {"10.0.0.1:5", v2(t, "[2001:db8::7]:4711") + get, "[2001:db8::7]:4711"},
		"version 2, more than the buffer": {"10.0.0.1:5", v2(t, "192.0.2.7:4711", large) + get, "192.0.2.7:4711"},
		"version 2, a health check":       {"10.0.0.1:5", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" + get, "10.0.0.1:5"},
		"IPv4 in IPv6":                    {"[::ffff:10.0.0.1]:5", v2(t, "192.0.2.7:4711") + get, "192.0.2.7:4711"},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, func(d door) {
				c := d.come(tt.from, tt.sends)
				defer c.Close()
				d.gets(tt.want, get)
			})
		})
	}
}

// The header of an untrusted client is part of its request.
func TestUntrusted(t *testing.T) {
	open(t, func(d door) {
		header := "PROXY TCP4 192.0.2.7 10.9.9.9 4711 443\r\n"
		c := d.come("192.0.2.1:5", header)
		defer c.Close()
		d.gets("192.0.2.1:5", header)
	})
}

// A trusted proxy must send a valid header, in time.
func TestInvalid(t *testing.T) {
	for name, sends := range map[string]string{
		"none":               get,
		"TLS":                "\x16\x03\x01\x02\x00",
		"a bad address":      "PROXY TCP4 a b 1 2\r\n",
		"a bad family":       "PROXY UDP4 192.0.2.7 10.9.9.9 4711 443\r\n",
		"a long line":        "PROXY TCP4 " + string(make([]byte, 200)),
		"version 3":          "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c",
		"too short":          "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x04abcd",
		"a datagram":         "\r\n\r\n\x00\r\nQUIT\n\x21\x12\x00\x0c\xc0\x00\x02\x07\x0a\x09\x09\x09\x00\x01\x00\x02",
		"larger than allows": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + string(make([]byte, 1<<16)),
	} {
		t.Run(name, func(t *testing.T) {
			open(t, func(d door) {
				c := d.come("10.0.0.1:5", sends)
				defer c.Close()
				d.fails()
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the connection is open: %v", err)
				}
			})
		})
	}
	for _, part := range []string{"", "PRO", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0cabc"} {
		open(t, func(d door) {
			c := d.come("10.0.0.1:5", part)
			defer c.Close()
			time.Sleep(11 * time.Second)
			d.fails()
		})
	}
}

// A slow proxy delays no other connection; too many are closed.
func TestPending(t *testing.T) {
	open(t, func(d door) {
		for range maxPending {
			defer d.come("10.0.0.1:5", "").Close()
		}
		defer d.come("10.0.0.2:5", v2(t, "192.0.2.7:4711")).Close()
		d.fails()
		defer d.come("192.0.2.1:5", get).Close()
		d.gets("192.0.2.1:5", get)
		time.Sleep(11 * time.Second)
		for range maxPending {
			d.fails()
		}
		defer d.come("10.0.0.2:5", v2(t, "192.0.2.7:4711")+get).Close()
		d.gets("192.0.2.7:4711", get)
	})
}

// An error of Accept goes to the server, which decides what to do, and ends nothing.
func TestAcceptError(t *testing.T) {
	open(t, func(d door) {
		_ = d.in.Connect(d.t.Context(), nil)
		defer d.come("192.0.2.1:5", get).Close()
		d.gets("192.0.2.1:5", get)
	})
}

// Whatever a trusted proxy sends, a connection has an address, and no byte is lost after it.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.7 10.9.9.9 4711 443\r\nrest"))
	f.Add([]byte(v2(f, "192.0.2.7:4711") + "rest"))
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00rest"))
	f.Fuzz(func(t *testing.T, sends []byte) {
		client, server := net.Pipe()
		go func() {
			_, _ = client.Write(sends)
			client.Close()
		}()
		c, err := readHeader(testrig.From(server, "10.0.0.1:5"))
		if err != nil {
			server.Close()
			return
		}
		rest, err := io.ReadAll(c)
		server.Close()
		if err != nil || len(rest) > len(sends) || string(sends[len(sends)-len(rest):]) != string(rest) {
			t.Errorf("%q, %v: want the end of %q", rest, err, sends)
		}
		if tcp, ok := c.RemoteAddr().(*net.TCPAddr); !ok || !tcp.AddrPort().IsValid() {
			t.Errorf("address %v", c.RemoteAddr())
		}
	})
}
