// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A JACK client that is late now and then: once a second its main thread holds the lock of the sound for 8 ms, as if it loaded another one,
 * and the callback waits for that lock.
 *
 *     synth SECONDS
 */
#include <jack/jack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t sound = PTHREAD_MUTEX_INITIALIZER;
static jack_port_t *out;

static int process(jack_nframes_t frames, void *unused)
{
	float *to = jack_port_get_buffer(out, frames);

	(void)unused;
	pthread_mutex_lock(&sound);
	for (jack_nframes_t i = 0; i < frames; i++)
		to[i] = 0.1f * (float)(i & 15);
	pthread_mutex_unlock(&sound);
	return 0;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10;
	jack_client_t *client = jack_client_open("synth", JackNoStartServer, NULL);

	if (!client) {
		fprintf(stderr, "synth: no JACK server runs\n");
		return 1;
	}
	out = jack_port_register(client, "out", JACK_DEFAULT_AUDIO_TYPE, JackPortIsOutput, 0);
	jack_set_process_callback(client, process, NULL);
	if (jack_activate(client)) {
		fprintf(stderr, "synth: the server does not take the client\n");
		return 1;
	}
	for (int i = 0; i < seconds; i++) {
		usleep(1000 * 1000);
		pthread_mutex_lock(&sound);
		usleep(8 * 1000);
		pthread_mutex_unlock(&sound);
	}
	jack_client_close(client);
	return 0;
}
