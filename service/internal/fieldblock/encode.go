package fieldblock

import (
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// appendInteger encodes an integer with a prefix of some bits, whose first byte has other bits too.
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

// Indices of names in the static table.
const (
	contentLengthName = 28
	contentTypeName   = 31
	dateName          = 33
)

// AppendField encodes a field with a name in lower case.
func AppendField[T string | []byte](b []byte, name string, value T) []byte {
	switch name {
	case "content-type":
		b = appendInteger(b, 0, 4, contentTypeName)
	case "content-length":
		b = appendInteger(b, 0, 4, contentLengthName)
	case "date":
		b = appendInteger(b, 0, 4, dateName)
	default:
		b = appendText(append(b, 0), name)
	}
	return appendText(b, value)
}

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
		b = AppendField(b, fields[i].Name, fields[i].Value)
	}
	return b
}

// namePrefixes has the starts of literals by the names that answers have.
var namePrefixes = func() map[string][]byte {
	prefixes := map[string][]byte{}
	for i := len(staticTable) - 1; i > 0; i-- {
		prefixes[staticTable[i].Canonical] = appendInteger(nil, 0, 4, i)
	}
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Weir-Degraded", "Trailer", "Grpc-Status", "Grpc-Message"} {
		prefixes[name] = appendText([]byte{0}, strings.ToLower(name))
	}
	return prefixes
}()

// AppendValues appends the fields with a name.
func AppendValues(b []byte, name string, values []string) []byte {
	prefix := namePrefixes[name]
	if prefix == nil {
		lower := strings.ToLower(name)
		if !httpguts.ValidHeaderFieldName(lower) {
			return b
		}
		prefix = appendText([]byte{0}, lower)
	}
	for _, value := range values {
		b = appendText(append(b, prefix...), value)
	}
	return b
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
