package fieldblock

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
)

// appendInteger encodes an integer with a prefix of some bits. Its first byte has other bits too.
func appendInteger(b []byte, first byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(b, first|byte(n))
	}
	b = append(b, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// appendText encodes a string, without Huffman's code.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(appendInteger(b, 0, 7, len(text)), text...)
}

// contentLengthName is the index of the name in the static table.
const contentLengthName = 28

// AppendContentLength encodes the field of a length.
func AppendContentLength(b []byte, n int) []byte {
	b = append(appendInteger(b, 0, 4, contentLengthName), 0)
	from := len(b)
	b = strconv.AppendInt(b, int64(n), 10)
	b[from-1] = byte(len(b) - from)
	return b
}

// AppendLiterals encodes fields as literals, which no table is needed for.
func AppendLiterals(b []byte, fields []*Field) []byte {
	for i := range fields {
		b = appendText(appendText(append(b, 0), fields[i].Name), fields[i].Value)
	}
	return b
}

// A Name is the name of a field of answers.
type Name struct {
	Canonical string // as http.Header has it
	index     int    // in the static table, or 0
	literal   []byte // the start of a literal that is not added to the table
}

// names has *Name by Canonical.
var names struct {
	sync.Map
	n atomic.Int64
}

// maxNames bounds names.
const maxNames = 256

// NameOf returns a Name, or nil if it is not valid.
func NameOf(canonical string) *Name {
	if n, ok := names.Load(canonical); ok {
		return n.(*Name)
	}
	if !httpguts.ValidHeaderFieldName(canonical) {
		return nil
	}
	lower := strings.ToLower(canonical)
	n := &Name{Canonical: canonical, index: slices.IndexFunc(staticTable[1:], func(f *Field) bool { return f.Name == lower }) + 1}
	if n.literal = appendInteger(nil, 0, 4, n.index); n.index == 0 {
		n.literal = appendText(n.literal, lower)
	}
	if names.n.Add(1) <= maxNames {
		names.Store(canonical, n)
	}
	return n
}

// Append encodes a field without the client's table.
func (n *Name) Append(b []byte, value string) []byte {
	return appendText(append(b, n.literal...), value)
}

// appendIndexed encodes a field that the client adds to its table.
func (n *Name) appendIndexed(b []byte, value string) []byte {
	b = appendInteger(b, 0x40, 6, n.index)
	if n.index == 0 {
		b = append(b, n.literal[1:]...)
	}
	return appendText(b, value)
}

// AppendStatus appends the field of a status.
func AppendStatus(b []byte, status int) []byte {
	for i := 8; i <= 14; i++ {
		if v := staticTable[i].Value; status == int(v[0]-'0')*100+int(v[1]-'0')*10+int(v[2]-'0') {
			return append(b, 0x80|byte(i))
		}
	}
	var digits [20]byte
	return appendText(append(b, 8), strconv.AppendInt(digits[:0], int64(status), 10))
}
