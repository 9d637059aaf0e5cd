//go:build system

package decidertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

func init() {
	for _, engine := range redistest.Engines {
		stores[engine] = func(t *testing.T) *store { return dialStore(t, redistest.Start(t, engine).Addr) }
	}
}

// dialStore returns a store at an address. A bubble may use its connection: while a reply is awaited, no time
// passes there.
func dialStore(t *testing.T, addr string) *store {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	in := bufio.NewReader(conn)
	return &store{eval: func(_ context.Context, source string, keys []string, args []any) ([]int64, error) {
		line := append([]string{"EVAL", source, strconv.Itoa(len(keys))}, keys...)
		for _, a := range args {
			line = append(line, fmt.Sprint(a))
		}
		var out strings.Builder
		fmt.Fprintf(&out, "*%d\r\n", len(line))
		for _, word := range line {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
		}
		if _, err := conn.Write([]byte(out.String())); err != nil {
			return nil, err
		}
		return readNumbers(in)
	}}
}
