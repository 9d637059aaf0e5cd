// Package jsontext appends members of JSON objects without reflection.
package jsontext

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// AppendString appends text as a JSON string, like encoding/json without HTML
// escapes. Bytes that are not UTF-8 become U+FFFD. It allocates only for text that is
// not plain ASCII.
func AppendString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var escaped bytes.Buffer
			to := json.NewEncoder(&escaped)
			to.SetEscapeHTML(false)
			_ = to.Encode(text) // strings and buffers make no errors
			return append(b, bytes.TrimSuffix(escaped.Bytes(), []byte("\n"))...)
		}
	}
	b = append(append(b, '"'), text...)
	return append(b, '"')
}

// AppendText appends a JSON member. member is its name in quotes and a colon, after a comma if it is
// not the first: ,"eta_ms":.
func AppendText(b []byte, member, text string) []byte {
	return AppendString(append(b, member...), text)
}

// AppendInt appends a JSON member, as AppendText does.
func AppendInt[N int | int64 | uint64](b []byte, member string, n N) []byte {
	b = append(b, member...)
	if n < 0 {
		return strconv.AppendInt(b, int64(n), 10)
	}
	return strconv.AppendUint(b, uint64(n), 10)
}

// AppendMillis appends a JSON member with d in whole milliseconds, rounded up, as AppendText does.
func AppendMillis(b []byte, member string, d time.Duration) []byte {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return AppendInt(b, member, int64(ms))
}
