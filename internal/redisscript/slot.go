package redisscript

import "strings"

// Slots is the number of hash slots of a cluster.
const Slots = 1 << 14

// Slot returns the hash slot of a key: that of the part within the first braces, the hash
// tag, unless that is empty.
func Slot(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return int(crc) % Slots
}
