// Command lash-node runs nodes, and is the client of users and operators.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/lash-node/serve"
)

// Exit codes.
const (
	exitOK        = program.OK
	exitDifferent = program.Different // a difference was found, or the named object does not exist
	exitFailed    = program.Failed
)

type cli struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`

	Chat  chatCmd       `cmd:"" help:"Talk to a session in the terminal: on a node that runs, or on one that starts with it."`
	Demo  demoCmd       `cmd:"" help:"Run recorded conversations through the whole runtime and compare every history with its recording."`
	Serve serve.Command `cmd:"" help:"Run a node until a signal: on an embedded server, or on an existing NATS."`

	Config    configCmd          `cmd:"" help:"Print a file of settings for serve, with comments."`
	Approvals approvalsCmd       `cmd:"" help:"List the calls that wait for an approval."`
	Approve   approveCmd         `cmd:"" help:"Let a call run that waits for an approval, or refuse it."`
	Models    modelsCmd          `cmd:"" help:"Show what a model's endpoint can do."`
	Plugins   pluginsCmd         `cmd:"" help:"List the plugins that run as programs of their own: which live, where, and what they do."`
	Plugin    pluginCmd          `cmd:"" help:"Run a program that speaks JSON lines as a plugin, or check a plugin."`
	MCP       mcpCmd             `cmd:"" name:"mcp" help:"The Model Context Protocol: serve sessions to another agent, or log in at a server."`
	Import    importCmd          `cmd:"" help:"Put sessions into a server: archives, chats in OpenAI's format, transcripts of Claude Code, rollouts of Codex, items of the Responses API, pi session files, or records. Of all but archives the times are those of the import."`
	Fork      forkCmd            `cmd:"" help:"Make a session that goes on from a point of another."`
	Check     serve.CheckCommand `cmd:"" help:"Compare recorded sessions with what this program and its plugins decide."`
	Rerun     rerunCmd           `cmd:"" help:"Run recorded turns again on a fork, with another model, other instructions or other plugins, and show what changes."`
	Erase     eraseCmd           `cmd:"" help:"Erase a session for good."`
	Redact    redactCmd          `cmd:"" help:"Replace payloads of a closed session by their digests, for good."`
	Keys      keysCmd            `cmd:"" help:"Keys that sign the heads of histories: make, certify, show."`
	Dead      deadCmd            `cmd:"" help:"Dead letters: sessions that no node can read. List, show, retry or drop them."`
	DemoEdit  demoEditCmd        `cmd:"" help:"Have a scripted model edit a file, once you approve it from another terminal."`
}

// streams are the standard streams and the environment of a command.
type streams = program.Streams

func main() { os.Exit(line(&cli{}).Main()) }

// run is [program.CLI.Run] of a new command line.
func run(ctx context.Context, args []string, s *streams) (code int) {
	return line(&cli{}).Run(ctx, args, s)
}

func line(into *cli) *program.CLI {
	return &program.CLI{
		Name: "lash-node", Description: "The runtime on which LLM-agent sessions live.\n\nTry: lash-node chat, or without a model: lash-node demo", Flags: into, Explain: connect.Advised,
	}
}
