package busembed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// readyWait is how long a server may take until it listens.
const readyWait = 10 * time.Second

// boot starts the server and waits until it accepts connections. It returns the server's own error where it cannot
// start.
func (s *Server) boot(log *zap.Logger) error {
	lines := newServerLog(log)
	s.ns.SetLoggerV2(lines, false, false, false)
	s.ns.Start()
	for end := time.Now().Add(readyWait); ; {
		if s.ns.ReadyForConnections(readyWait / 100) {
			return nil
		}
		select {
		case err := <-lines.fatal:
			return err
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("it does not listen after %s", readyWait)
		}
	}
}

// Ports that systems do not use for outgoing connections by default: Linux uses those from 32768 on.
const (
	firstPort = 12_000
	lastPort  = 31_999
)

// FreePorts finds n loopback ports on which no process listens, outside the range of outgoing connections.
func FreePorts(n int) (ports []int, err error) {
	for try := 0; len(ports) < n; try++ {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if errors.Is(err, syscall.EADDRINUSE) && try < lastPort-firstPort {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() //nolint:errcheck // only reserved while the others are found
		ports = append(ports, port)
	}
	return ports, nil
}
