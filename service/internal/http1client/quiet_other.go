//go:build !unix || aix

package http1client

import "net"

// Supported says whether this system lets a Client look at idle connections.
const Supported = false

func quiet(net.Conn) (is bool, first []byte) { return false, nil }
