package respwire

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// show returns the arguments, or the error, and how many bytes are left.
func show(d *Decoder, b []byte) string {
	n, err := d.Decode(b)
	if err != nil {
		return err.Error()
	}
	if n == 0 {
		return "more"
	}
	return fmt.Sprintf("%q, %d left", d.Args, len(b)-n)
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "more"},
		{"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", `["ECHO" "hi"], 0 left`},
		{"*1\r\n$4\r\nPING\r\n*1\r\n", `["PING"], 4 left`},
		{"*1\r\n$0\r\n\r\n", `[""], 0 left`},
		{"*1\r\n$4\r\na\r\nb\r\n", `["a\r\nb"], 0 left`},
		{"*1\r\n$2\r\n\xff\x00\r\n", `["\xff\x00"], 0 left`},
		{"*0\r\n", `[], 0 left`},
		{"*-1\r\n*", `[], 1 left`},
		{"*", "more"}, {"*1", "more"}, {"*1\r", "more"}, {"*1\r\n", "more"}, {"*1\r\n$", "more"},
		{"*1\r\n$4\r\nPIN", "more"}, {"*1\r\n$4\r\nPING\r", "more"},
		{"*1\r\n$4\r\nPINGSS", "Protocol error: expected CRLF"},
		{"*1\r\n$4\r\nPING\rS", "Protocol error: expected CRLF"},
		{"*1\rx", "Protocol error: expected CRLF"},
		{"*\r\n", "Protocol error: invalid multibulk length"},
		{"*-\r\n", "Protocol error: invalid multibulk length"},
		{"*x\r\n", "Protocol error: invalid multibulk length"},
		{"*1 \r\n", "Protocol error: invalid multibulk length"},
		{"*65\r\n", "Protocol error: invalid multibulk length"},
		{"*1000000\r\n", "Protocol error: invalid multibulk length"},
		{"*9999999999999999999\r\n", "Protocol error: invalid multibulk length"},
		{"*0000000000000000000000001\r\n", "Protocol error: too big mbulk count string"},
		{"*1\r\n*1\r\n$1\r\na\r\n", "Protocol error: expected '$', got '*'"},
		{"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"},
		{"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"},
		{"*1\r\n$x\r\n", "Protocol error: invalid bulk length"},
		{"*1\r\n$101\r\n", "Protocol error: invalid bulk length"},
		{"*1\r\n$536870912\r\n", "Protocol error: invalid bulk length"},
		{"*1\r\n$000000000000000000000000\r\n", "Protocol error: too big bulk count string"},

		{"PING\r\n", `["PING"], 0 left`},
		{"PING\nPING\n", `["PING"], 5 left`},
		{"\r\n", `[], 0 left`},
		{"  \t\r\n", `[], 0 left`},
		{"PING", "more"},
		{" a  bc\td \r\n", `["a" "bc" "d"], 0 left`},
		{`a "b c" 'd e' "" f` + "\n", `["a" "b c" "d e" "" "f"], 0 left`},
		{`"\x41\n\"\\\q" 'a\'\n'` + "\n", `["A\n\"\\q" "a'\\n"], 0 left`},
		{`"\xZZ"` + "\n", `["xZZ"], 0 left`},
		{`a"b"` + "\n", `["ab"], 0 left`},
		{`"a` + "\n", "Protocol error: unbalanced quotes in request"},
		{`"a"b` + "\n", "Protocol error: unbalanced quotes in request"},
		{`'a\'` + "\n", "Protocol error: unbalanced quotes in request"},
		{strings.Repeat("a ", 65) + "\n", "Protocol error: invalid multibulk length"},
		{strings.Repeat("a", maxInline), "Protocol error: too big inline request"},
		{strings.Repeat("a", maxInline-2) + "\r\n", fmt.Sprintf("[%q], 0 left", strings.Repeat("a", maxInline-2))},
	} {
		d := Decoder{MaxArg: 100}
		if got := show(&d, []byte(tt.in)); got != tt.want {
			t.Errorf("%.80q: %s, want %s", tt.in, got, tt.want)
		}
	}
}

// A command is bounded as a whole.
func TestDecodeLargest(t *testing.T) {
	many := func(n int) []byte {
		b := []byte("*64\r\n")
		for range 64 {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", n, bytes.Repeat([]byte("x"), n))
		}
		return b
	}
	d := Decoder{MaxArg: 1000}
	if n, err := d.Decode(many(120)); n == 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	whole := many(300)
	for i := range whole {
		if n, err := d.Decode(whole[:i]); err == errLarge {
			if i > d.Most() {
				t.Errorf("known after %d bytes only, the bound is %d", i, d.Most())
			}
			return
		} else if n > 0 || err != nil {
			t.Fatalf("%d: %d, %v", i, n, err)
		}
	}
	t.Error("there is no bound")
}

// However the bytes of a client come, the commands are the same. Their arguments, encoded
// again, decode to the same commands, and no part of a command is one.
func FuzzDecode(f *testing.F) {
	for _, in := range []string{
		"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$4\r\nPING\r\n", "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
		"PING\r\n*0\r\n*-1\r\nECHO \"a b\" 'c'\n", "*1\r\n*1\r\n", "*1\r\n$-1\r\n", "*1000000\r\n", "*1\r\n$99999999\r\n", `"\x41\"` + "\n", "*1\r\n$1\r\n\r\r\n",
	} {
		f.Add([]byte(in), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		whole, wholeErr := commandsOf(t, in, len(in)+1)
		parts, partsErr := commandsOf(t, in, int(step)+1)
		if !slices.Equal(whole, parts) || wholeErr != partsErr {
			t.Errorf("%q, %v: want %q, %v", parts, partsErr, whole, wholeErr)
		}
		var again []byte
		for _, c := range whole {
			again = append(again, c...)
		}
		if same, err := commandsOf(t, again, len(again)+1); err != nil || !slices.Equal(same, whole) {
			t.Errorf("%q: %q, %v: want %q", again, same, err, whole)
		}
	})
}

// commandsOf returns the commands in some bytes, encoded, if step of them come at a time.
func commandsOf(t *testing.T, in []byte, step int) (all []string, err error) {
	d := Decoder{MaxArg: maxInline}
	in = slices.Clone(in) // decode changes it
	from := 0
	for to := 0; ; {
		n, err := d.Decode(in[from:to:to])
		if n < 0 || n > to-from || err != nil && n != 0 || n == 0 && err == nil && to-from > d.Most() {
			t.Fatalf("%d of %d bytes, %v", n, to-from, err)
		}
		from += n
		switch {
		case err != nil:
			return all, err
		case n > 0 && len(d.Args) > 0:
			b := fmt.Appendf(nil, "*%d\r\n", len(d.Args))
			for _, arg := range d.Args {
				if len(arg) > d.MaxArg {
					t.Fatalf("an argument of %d bytes", len(arg))
				}
				b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
			}
			all = append(all, string(b))
		case n > 0:
		case to == len(in):
			return all, nil
		default:
			to = min(to+step, len(in))
		}
	}
}
