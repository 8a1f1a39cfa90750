// Package serve is `lash-node serve` for programs that add tools, hooks, protocols and model providers. Their main
// passes those to [Main], and has all flags, environment variables and outputs of the command.
package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/mcp"
)

// Config is what a program adds to the command. The zero value is `lash-node serve`.
type Config struct {
	// Plugins follow the shipped ones in the stack of every session. --plugins accepts their ids, and its "default"
	// includes them. The id of a shipped plugin is an error.
	Plugins []plugin.Factory
	// Providers are additional values of --provider and of a session's configuration. One with the id of a shipped
	// provider replaces it. The first is the default of --provider.
	Providers []llm.Provider
	// Logger receives the node's log and its access log. Default: lines of JSON on standard error, at the level of
	// setting debug.
	Logger *zap.Logger
}

// Main runs a node with the flags of this process until a signal, and returns the exit code.
func Main(cfg Config) (code int) { return cfg.cli(filepath.Base(os.Args[0]), &standalone{}).Main() }

// standalone is the command as a program of its own.
type standalone struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`
	Command
}

func (cfg Config) cli(name string, into *standalone) *program.CLI {
	into.adds = cfg
	return &program.CLI{Name: name, Description: "A lash node: runs sessions until a signal, on an embedded server, or on an existing NATS.", Flags: into, Explain: connect.Advised}
}

// Command is the command line of a serving node. Kong fills its flags; [Config] has the additions of the program.
type Command struct {
	program.Settings

	Store   string           `help:"Directory of the embedded server. Defaults to .lash in the working directory." default:".lash" placeholder:"DIR" type:"path"`
	Listen  string           `help:"Address at which the embedded server takes clients. Defaults to 127.0.0.1:4222." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Profile busembed.Profile `help:"What an acknowledged append survives: interval or always." default:"interval" enum:"interval,always" setting:""`

	NATS string `name:"nats" help:"Run on existing servers instead of an embedded one." placeholder:"URL"`
	connect.Flags
	Replicas int `help:"Replicas of every durable stream, with --nats: 1, 3 or 5. Where there are more already, that many." default:"1" setting:""`

	PluginFlags
	External string `name:"external-plugins" help:"File of the plugins that are programs of their own, connected to NATS: a JSON object as {\"plugins\": [{\"name\": \"weather\", \"effects\": {\"send\": \"non_idempotent\"}, \"callbacks\": [\"createSession\"], \"tools\": [\"forecast\", \"send*\"], \"changes_others\": false, \"by_session\": false, \"manifests\": [\"HASH\"]}]}. All but name may be left out: effects tighten what the plugin declares of its tools, callbacks are the operations that its calls may request, tools the names that it alone may register, changes_others lets its hooks change calls of tools of others, by_session leaves its tools out of sessions until a caller adds them as a tool source, manifests the hashes of those that may register. Give it to every node. It is read once, at start. An embedded server makes a key for each plugin, in plugins/NAME.json of --store." placeholder:"FILE" type:"path" setting:""`
	httpFlags

	Provider string `help:"Model provider of sessions that name none: openai (Chat Completions), openai-responses (the Responses API, with the same key), anthropic or scripted. Defaults to one whose key is in the environment; without a key to scripted, whose only answer is how to give one." placeholder:"NAME"`
	Model    string `help:"Model of sessions that name none." placeholder:"NAME"`
	ModelFlags
	Name         string        `help:"Name of this node, the same in every run: the node continues at once with what its last run left. Defaults to the host's name." placeholder:"NAME"`
	Roles        []string      `help:"What this node does, of: ${enum}." default:"turn,tool,task,projector,archive,api" enum:"turn,tool,task,projector,archive,api" setting:""`
	Concurrency  concurrency   `help:"How much runs at once, by class: turn=N sessions, and as many of agents, tool=N tool calls of other nodes' turns, task=N background tasks. A number alone is turn's." default:"turn=256,tool=256,task=1024" placeholder:"CLASS=N,..."`
	Memory       program.Bytes `help:"How much memory what is said in sessions may have on this node, as 512MiB or 2GiB, at least 64MiB: half of it for requests, of which one caller has at most half, a quarter for turns and a quarter for cached states. What is larger than its part is refused, and what gets none in time is told to come again. Defaults to a third of the machine's memory, or of its control group." placeholder:"BYTES"`
	MaxQueued    int           `help:"Turns that may wait in one session, at most 4096; more are refused." default:"1024" placeholder:"N" setting:""`
	MaxSessions  int           `name:"max-sessions-per-caller" help:"Open sessions that may belong to one caller; more are refused. Closed and erased ones do not count. Give it to every node that serves. 0 is any number." default:"0" placeholder:"N" setting:""`
	MaxStored    program.Bytes `name:"max-stored-per-caller" help:"Bytes that the sessions of one caller may have, bodies included, as 10GiB; then what begins a session or a turn of theirs, adds a message or stores a body, is refused until some are erased. The metric lash_stored_bytes has them by caller. Give it to every node that serves. Without it nothing is counted." placeholder:"BYTES" setting:""`
	MaxHot       int           `help:"Streams that the account may have before new sessions are refused. Negative leaves it to the server." default:"4000" placeholder:"N" setting:""`
	ArchiveAfter time.Duration `help:"How long a session has no work before its stream is archived; it comes back by itself. Negative keeps streams." default:"30m"`
	Scopes       string        `name:"nats-scopes" help:"File of the rights of users of other NATS accounts, one user a line: its name, and read, write, admin or a list of rights (read,write,approve,configure,command); then, if needed, own, which limits it to its own sessions and those that it has a grant of. Without the file all users may do everything but run commands." placeholder:"FILE" type:"path" setting:""`
	ForbidSelf   bool          `name:"forbid-self-approval" help:"Refuse a caller that approves a call of a turn that it asked for. Give it to every node that serves."`
	Redact       string        `help:"File of regular expressions, one a line. What they match in any text or JSON that a model, a tool, a plugin or a caller writes becomes [redacted] before it is stored, and so for the next prompt: in instructions, inputs, replies, arguments, results, texts of tasks and monitors, reasons and errors. In JSON each string and number is matched alone. Output is then not streamed before its commit. Names, options of plugins, commands of monitors, stored bodies that a caller uploads, and states of plugins are not changed. Give it to every node of a fleet." placeholder:"FILE" type:"path" setting:""`
	Locks        string        `help:"File of what sessions cannot change, for every caller: a JSON object, each field of which may be left out: {\"plugins\": [\"gate\"], \"providers\": [], \"models\": [\"gpt-*\"], \"protocols\": [\"standard\"], \"environments\": [\"ci\"], \"max_iterations\": 50, \"max_output_tokens\": 8000, \"least_retain\": \"720h\"}. Options of plugins that it names are this node's alone." placeholder:"FILE" type:"path" setting:""`
	Retain       time.Duration `help:"How long a session without such a setting of its own is kept after its last event, before it is erased. 0 is for ever." default:"0s" setting:""`
	Grace        time.Duration `help:"How long calls in flight may take to end after a signal. Turns are handed to another node with what is recorded of them; a call that takes longer is cancelled." default:"10s" setting:""`
	Trace        string        `help:"Append a line of JSON for everything that sessions do to this file: turns, model calls, tool calls, what plugins trace. Never waits: lines that cannot be written are lost, counted and warned of." placeholder:"FILE" type:"path" writes:"" setting:""`
	Debug        bool          `help:"Log every commit: what happened, not what was said." setting:""`
	telemetryFlags
	keyFlags

	adds     Config
	unset    bool                 // neither a flag nor the environment names a provider
	external []external.Plugin    // of setting external-plugins
	mcp      []mcp.Server         // of --mcp
	stack    plugin.BuilderConfig // of every session, without the external plugins
}

// Run serves until ctx ends.
func (c *Command) Run(ctx context.Context, s *program.Streams) error {
	s.Printf("a node starts, %s", program.Build())
	node, err := c.start(ctx, s)
	if err != nil {
		return err
	}
	if node.server != nil {
		s.Printf("NATS on %s, for programs with the credentials in %s", node.server.URL(), busembed.AccessFile(c.Store))
		s.Printf("store %s, durability %s: %s", c.Store, c.Profile, c.Profile.Guarantee())
	}
	s.Printf("histories: %s", node.signing)
	if c.unset {
		s.Printf("no model: the environment has no key of a provider, so every prompt gets the same answer, of the provider scripted. For a model set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY, name it with --model, and start again")
	}
	s.Printf("serving, provider %s; stop with ctrl-c", c.Provider)
	select {
	case <-ctx.Done():
		s.Printf("handing running turns over, calls in flight may take %s", c.Grace)
		node.Stop()
		return nil
	case err := <-node.bus.Ended():
		node.Stop()
		return fmt.Errorf("the servers have closed this node's connection for good: %w; mend what they refuse, and start the node again", err)
	}
}
