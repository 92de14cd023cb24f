// SPDX-License-Identifier: MIT OR Apache-2.0

// A receiver of OTLP over HTTP: the one of the OpenTelemetry Collector, without the rest of it. Each message that it accepts becomes a line
// of JSON on standard output.
//
//	receiver ADDRESS:PORT [CERTIFICATE KEY]
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func run(arguments []string) error {
	http := map[string]any{"endpoint": arguments[0]}
	if len(arguments) > 2 {
		http["tls"] = map[string]any{"cert_file": arguments[1], "key_file": arguments[2]}
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	settings := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": http}})
	if err := settings.Unmarshal(config); err != nil {
		return err
	}
	var lock sync.Mutex
	var marshaler pmetric.JSONMarshaler
	print := func(_ context.Context, metrics pmetric.Metrics) error {
		line, err := marshaler.MarshalMetrics(metrics)
		if err != nil {
			return err
		}
		lock.Lock()
		defer lock.Unlock()
		_, err = os.Stdout.Write(append(line, '\n'))
		return err
	}
	next, err := consumer.NewMetrics(print)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	own := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}
	otlp, err := factory.CreateMetrics(ctx, own, config, next)
	if err != nil {
		return err
	}
	if err := otlp.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	<-ctx.Done()
	return otlp.Shutdown(context.Background())
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
