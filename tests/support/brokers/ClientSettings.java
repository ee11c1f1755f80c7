import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** One line for each setting of Kafka's consumer and producer: whose it is, its name and its type, tab-separated. */
public class ClientSettings {
    public static void main(String[] args) {
        print("consumer", ConsumerConfig.configDef());
        print("producer", ProducerConfig.configDef());
    }

    private static void print(String side, ConfigDef definition) {
        new TreeMap<>(definition.configKeys())
            .forEach((name, key) -> System.out.println(side + "\t" + name + "\t" + key.type));
    }
}
