package load

import (
	"bufio"
	"bytes"
	"testing"
)

// A reply is read to its end, or is an error. It leaves what follows it.
func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$1\r\na\r\n", "$-1\r\n", "*2\r\n:1\r\n*1\r\n$0\r\n\r\n", "*-1\r\n", "*2147483647\r\n:1\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		r, err := readReply(in)
		if err != nil {
			return
		}
		rest := make([]byte, in.Buffered())
		_, _ = in.Read(rest)
		whole := data[:len(data)-len(rest)]
		again, err := readReply(bufio.NewReader(bytes.NewReader(whole)))
		if err != nil || again != r {
			t.Errorf("%q: %+v, %v: want %+v again", whole, again, err, r)
		}
		if _, err := readReply(bufio.NewReader(bytes.NewReader(whole[:len(whole)-1]))); err == nil {
			t.Errorf("%q without its last byte is a reply", whole)
		}
		if len(r.failure) > 40 {
			t.Errorf("%q: a label of %d bytes", whole, len(r.failure))
		}
	})
}
