package busembed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// readyWait is how long a server may take until it listens.
const readyWait = 10 * time.Second

// boot starts the server and waits until it takes connections, or says why it never will.
func (s *Server) boot() error {
	why := make(fatal, 1)
	s.ns.SetLoggerV2(why, false, false, false)
	s.ns.Start()
	for end := time.Now().Add(readyWait); ; {
		if s.ns.ReadyForConnections(readyWait / 100) {
			return nil
		}
		select {
		case err := <-why:
			return err
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("it does not listen after %s", readyWait)
		}
	}
}

// fatal is a server's logger that keeps the first error the server cannot go on
// after: the server itself stays as it is, and tells nobody else.
type fatal chan error

func (f fatal) Fatalf(format string, args ...any) {
	select {
	case f <- fmt.Errorf(format, args...):
	default:
	}
}

func (fatal) Noticef(string, ...any) {}
func (fatal) Warnf(string, ...any)   {}
func (fatal) Errorf(string, ...any)  {}
func (fatal) Debugf(string, ...any)  {}
func (fatal) Tracef(string, ...any)  {}

// Ports that systems do not give to connections by default: Linux gives those from 32768 on.
const (
	firstPort = 12_000
	lastPort  = 31_999
)

// FreePorts finds loopback ports that nobody listens on just now, and that no
// connection takes before somebody does.
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
		defer l.Close() //nolint:errcheck // it was only asked for
		ports = append(ports, port)
	}
	return ports, nil
}
