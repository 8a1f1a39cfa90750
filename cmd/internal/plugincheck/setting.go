package plugincheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// setting is a server, a node and the programs.
type setting struct {
	cfg     Config
	store   string
	server  *busembed.Server
	bus     *bus.Bus
	plugins *external.Plugins
	node    *workers.Node
	conn    *nats.Conn // of the checks, which see and send all messages

	mu            sync.Mutex
	registrations []*wire.Registration
	signs         map[string][]sign // by instance
	programs      []*program
	calls         int
}

// sign is a sign of life of an instance.
type sign struct {
	at time.Time
	wire.Sign
}

// program is a running instance.
type program struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended
	err    error         // of its end
}

// open starts the server and the node.
func open(ctx context.Context, cfg Config) (s *setting, err error) {
	s = &setting{cfg: cfg, signs: make(map[string][]sign)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.store, err = os.MkdirTemp("", "lash-check-"); err != nil {
		return nil, err
	}
	if s.server, err = busembed.Start(busembed.Config{StoreDir: s.store, Listen: true}); err != nil {
		return nil, err
	}
	if s.bus, err = bus.Open(ctx, bus.Config{Options: []nats.Option{s.server.InProcess()}}); err != nil {
		return nil, err
	}
	if s.conn, err = nats.Connect("", s.server.InProcess()); err != nil {
		return nil, err
	}
	return s, cmp.Or(s.watch(), s.startNode(ctx))
}

// watch collects registrations and signs of life.
func (s *setting) watch() error {
	_, err := s.conn.Subscribe("lash.plugins.*.register", func(m *nats.Msg) {
		var r wire.Registration
		_ = json.Unmarshal(m.Data, &r) // what is missing, the checks name
		s.mu.Lock()
		defer s.mu.Unlock()
		s.registrations = append(s.registrations, &r)
	})
	_, err2 := s.conn.Subscribe("lash.plugin-live."+s.cfg.Plugin+".*", func(m *nats.Msg) {
		in := sign{at: time.Now()}
		_ = json.Unmarshal(m.Data, &in.Sign)
		s.mu.Lock()
		defer s.mu.Unlock()
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		s.signs[id] = append(s.signs[id], in)
	})
	return errors.Join(err, err2, s.conn.Flush())
}

func (s *setting) startNode(ctx context.Context) (err error) {
	if s.plugins, err = external.New(external.Config{Bus: s.bus, Plugins: []external.Plugin{{Name: s.cfg.Plugin}}}); err != nil {
		return err
	}
	if err := s.plugins.Start(ctx); err != nil {
		return err
	}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: s.plugins.Factories()})
	if err != nil {
		return err
	}
	provider := scripted.New(answer)
	node, err := workers.NewNode(workers.Config{
		Bus: s.bus, Plugins: builder, Provider: provider.ID(), Providers: map[string]llm.Provider{provider.ID(): provider}, Model: "m",
	})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	s.node = node
	return nil
}

// close ends everything.
func (s *setting) close() {
	for _, p := range s.programs {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.exited
	}
	if s.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the context of the checks has often ended
		defer cancel()
		s.node.Stop(ctx)
	}
	if s.plugins != nil {
		s.plugins.Stop()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.bus != nil {
		s.bus.Close()
	}
	if s.server != nil {
		s.server.Stop()
	}
	_ = os.RemoveAll(s.store)
}

// startProgram starts one more instance, and returns its registration.
func (s *setting) startProgram(ctx context.Context) (*program, *wire.Registration, error) {
	before := len(s.registered())
	cmd := exec.Command(s.cfg.Command[0], s.cfg.Command[1:]...) //nolint:gosec,noctx // the user names the program; close ends it
	cmd.Env = slices.DeleteFunc(slices.Clone(s.cfg.Env), func(v string) bool { return strings.HasPrefix(v, "LASH_PLUGIN") })
	cmd.Env = append(cmd.Env, "LASH_PLUGIN="+s.cfg.Plugin, "LASH_PLUGIN_NATS="+s.server.URL(), "LASH_PLUGIN_INBOX=_INBOX", "LASH_PLUGIN_PREFIX=lash")
	cmd.Stdout, cmd.Stderr = s.cfg.Log, s.cfg.Log
	cmd.WaitDelay = time.Second // processes that it started may keep its output open
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	p := &program{cmd: cmd, exited: make(chan struct{})}
	s.programs = append(s.programs, p)
	go func() { // ends with the program, which close kills
		p.err = cmd.Wait()
		close(p.exited)
	}()
	err := s.await(ctx, func() error {
		if list := s.registered(); len(list) == before {
			return fmt.Errorf("no request arrived at lash.plugins.%s.register: the program connects to LASH_PLUGIN_NATS as LASH_PLUGIN; one that writes lines needs --stdio", s.cfg.Plugin)
		}
		return nil
	}, p)
	if err != nil {
		return nil, nil, err
	}
	list := s.registered()
	return p, list[len(list)-1], nil
}

// terminate sends SIGTERM, and waits for the end.
func (p *program) terminate(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("SIGTERM: %w", err)
	}
	return p.ended(ctx)
}

func (p *program) ended(ctx context.Context) error {
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("the program ended with %w, want exit status 0", p.err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the program did not end: %w", context.Cause(ctx))
	}
}

func (s *setting) registered() []*wire.Registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.registrations)
}

func (s *setting) signsOf(instance string) []sign {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.signs[instance])
}

// await waits until is returns nil. Errors: what it returned last, and the end of the program.
func (s *setting) await(ctx context.Context, is func() error, of *program) error {
	for {
		err := is()
		if err == nil {
			return nil
		}
		select {
		case <-of.exited:
			return fmt.Errorf("the program ended (%w): %w", cmp.Or(of.err, errors.New("exit status 0")), err)
		default:
		}
		if !delay.Sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// main is the program that most checks use.
func (s *setting) main() *program { return s.programs[0] }

// instance is the id of the main program.
func (s *setting) instance() string { return s.registered()[0].Instance }

func (s *setting) subject(verb string) string {
	return "lash.plugin." + s.cfg.Plugin + "." + s.instance() + "." + verb
}
